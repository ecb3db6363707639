"""Background work of a stream: who does it, the job queue, the worker."""
