"""What tells right from wrong in code: judges in the session (`code.py`, `diagnosis.py`,
`registration.py`), their work in children (`worker.py`), and what each looks at."""
