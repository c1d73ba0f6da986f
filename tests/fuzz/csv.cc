// CSV files, plain and compressed.
#include "fuzz/sources.h"

HONE_FUZZ(csv) { hone::fuzz::read_all("x.csv", input); }
