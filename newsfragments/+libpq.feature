With PostgreSQL, statements are run by libpq directly: a request takes a quarter to a third less processor time.
