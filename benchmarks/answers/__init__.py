"""End-to-end answers per token: recalled context, a model's answer, a judge's verdict, beside BM25."""
