from __future__ import annotations

from tests.tuning import postgres

postgres_url = postgres.postgres_url  # here pytest finds the fixture
