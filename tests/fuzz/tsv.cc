// TSV files, plain and compressed.
#include "fuzz/sources.h"

HONE_FUZZ(tsv) { hone::fuzz::read_all("x.tsv", input); }
