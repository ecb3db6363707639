-- name: take_worker_role
-- For a whole session: only the job queue uses its connections.
SET ROLE reminiscence_worker;
SET search_path = reminiscence_jobs;
SET statement_timeout = '30s';
