// The JSON reader of configurations: what it accepts, it accepts again as it writes it.
#include "fuzz/fuzz.h"
#include "hone/config.h"

HONE_FUZZ(config_json) {
  using namespace hone::config;
  hone::Problems problems;
  const Node node = parse_json(std::string(input), "config.json", problems);
  if (!problems.empty()) return;
  const std::string written = to_json(node);
  const Node again = parse_json(written, "again.json", problems);
  hone::fuzz::require(problems.empty(), "what is written can be read");
  hone::fuzz::require(to_json(again) == written, "written and read it is the same");
}
