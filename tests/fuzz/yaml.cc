// The reader of recipes: what it accepts, it accepts again as it writes it.
#include "fuzz/fuzz.h"
#include "hone/config.h"

HONE_FUZZ(yaml) {
  using namespace hone::config;
  hone::Problems problems;
  Node node = parse_yaml(std::string(input), "recipe.yaml", problems);
  if (!problems.empty()) return;
  const std::string written = to_yaml(node);
  const Node again = parse_yaml(written, "again.yaml", problems);
  // The guard before the parser also counts brackets in quoted text: some 240 open ones are refused, and told so.
  if (!problems.empty() && problems.lines()[0].ends_with("nested too deeply")) return;
  hone::fuzz::require(problems.empty(), "what is written can be read");
  hone::fuzz::require(diff(node, again).empty(), "written and read it is the same");
  resolve(node, problems);
}
