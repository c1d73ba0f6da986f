// The JSON reader of data, tokenizers and checkpoints: what it accepts, it accepts again as it writes it.
#include "io/json.h"

#include "fuzz/fuzz.h"

HONE_FUZZ(json) {
  const nlohmann::json value = hone::io::parse_json(input, "x.json");
  hone::fuzz::require(hone::io::parse_json(value.dump(), "again.json") == value, "written and read it is the same");
}
