"""Holds JSON lines on standard input against a schema: validate.py SCHEMA. Says what is wrong, one line each."""
import json
import sys

import jsonschema

schema = json.load(open(sys.argv[1], encoding="utf-8"))
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
wrong = False
for line in sys.stdin.buffer:
    for error in validator.iter_errors(json.loads(line.decode("utf-8"))):
        deepest = jsonschema.exceptions.best_match([error])
        print(line.decode("utf-8").strip(), "--", deepest.message[:300])
        wrong = True
sys.exit(1 if wrong else 0)
