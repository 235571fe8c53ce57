CREATE TABLE study (settings TEXT NOT NULL);
CREATE TABLE captions (id INTEGER PRIMARY KEY, text TEXT NOT NULL, image INTEGER NOT NULL);
CREATE TABLE images (id INTEGER PRIMARY KEY, type TEXT NOT NULL, data BLOB NOT NULL);
-- A unit is handed out as a whole: a pair, or a set of pairs. `done` counts who finished it.
CREATE TABLE units (
  id INTEGER PRIMARY KEY,
  test INTEGER NOT NULL,
  stage INTEGER NOT NULL,
  position INTEGER NOT NULL,
  done INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE questions (
  unit INTEGER NOT NULL REFERENCES units,
  number INTEGER NOT NULL,
  kind TEXT NOT NULL,
  left_id INTEGER NOT NULL,
  right_id INTEGER NOT NULL,
  about INTEGER REFERENCES captions,
  pair TEXT NOT NULL,
  golden TEXT,
  note TEXT NOT NULL,
  PRIMARY KEY (unit, number)
);
-- Which models propose a pair, including pairs that nobody is asked about. `t2i`: the caption is the query. Rank 1 is the best.
CREATE TABLE proposals (
  caption INTEGER NOT NULL,
  image INTEGER NOT NULL,
  model TEXT NOT NULL,
  direction TEXT NOT NULL CHECK (direction IN ('i2t', 't2i')),
  rank INTEGER NOT NULL,
  PRIMARY KEY (caption, image, model, direction)
);
CREATE TABLE raters (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  token_hash BLOB NOT NULL UNIQUE,
  state TEXT NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'ended', 'unqualified'))
);
CREATE TABLE assignments (
  unit INTEGER NOT NULL REFERENCES units,
  rater INTEGER NOT NULL REFERENCES raters,
  state TEXT NOT NULL DEFAULT 'open'
    CHECK (state IN ('open', 'finished', 'check', 'accepted', 'rejected')),
  expires REAL NOT NULL,
  shown REAL NOT NULL,
  swapped INTEGER NOT NULL,
  PRIMARY KEY (unit, rater)
);
CREATE TABLE answers (
  unit INTEGER NOT NULL,
  number INTEGER NOT NULL,
  rater INTEGER NOT NULL,
  value TEXT NOT NULL,
  seconds REAL NOT NULL,
  at REAL NOT NULL,
  wrong_caption INTEGER NOT NULL,
  because TEXT NOT NULL,
  PRIMARY KEY (unit, number, rater),
  FOREIGN KEY (unit, number) REFERENCES questions,
  FOREIGN KEY (unit, rater) REFERENCES assignments
);
CREATE INDEX units_by_progress ON units (test, stage, done DESC, position);
CREATE INDEX questions_by_pair ON questions (pair);
CREATE INDEX assignments_of_rater ON assignments (rater, state);
CREATE INDEX answers_of_rater ON answers (rater);
