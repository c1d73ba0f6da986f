// JSON Lines files, plain and compressed.
#include "fuzz/sources.h"

HONE_FUZZ(jsonl) { hone::fuzz::read_all("x.jsonl", input); }
