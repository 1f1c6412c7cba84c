-- Counts by the hour: the number of rows depends on different items, not on their frequency.
CREATE TABLE views (
    hour INTEGER NOT NULL, path TEXT NOT NULL, source TEXT NOT NULL, count INTEGER NOT NULL,
    first_seen INTEGER NOT NULL, last_seen INTEGER NOT NULL, PRIMARY KEY (hour, path, source)
) STRICT, WITHOUT ROWID;
CREATE INDEX views_of_path ON views (path, hour);
CREATE TABLE searches (
    hour INTEGER NOT NULL, query TEXT NOT NULL, kind TEXT NOT NULL, has_results INTEGER NOT NULL, count INTEGER NOT NULL,
    first_seen INTEGER NOT NULL, last_seen INTEGER NOT NULL, PRIMARY KEY (hour, query, kind, has_results)
) STRICT, WITHOUT ROWID;
CREATE TABLE dismissed (query TEXT NOT NULL, kind TEXT NOT NULL, PRIMARY KEY (query, kind)) STRICT, WITHOUT ROWID;
