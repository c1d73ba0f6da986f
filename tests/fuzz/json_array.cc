// JSON files that hold one array, streamed element by element.
#include "fuzz/sources.h"

HONE_FUZZ(json_array) { hone::fuzz::read_all("x.json", input); }
