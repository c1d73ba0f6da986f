// Flags of a command: kebab-case names of its options struct, plus --a.b.c=value overrides of a recipe.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "hone/config.h"

namespace hone::config {

// What may be overridden besides the command's own flags.
struct Overridable {
  bool dotted = false;                     // --a.b.c=value
  std::vector<std::string> sections = {};  // without a dot
  std::vector<std::string> switches = {};  // of those with dots: true without a value
  bool passes_on = false;                  // from the first positional on all is positional
};

struct CommandLine {
  std::vector<std::string> positionals;
  std::vector<std::pair<std::string, std::string>> overrides;  // {"a.b.c", "value"}, in order
  std::vector<std::pair<std::string, std::string>> flags;      // the command's own, likewise: {"max_length", "5"}
  bool help = false;                                           // --help or -h
  std::vector<std::string> notes;                              // flags under their old names, for a warning
};

// Reads flags into `options`: --max-length 5, --max-length=5, --json, --no-json; lists take the flag several times; a
// group's flags have its name in front (--data.max-length). Other dotted flags, and those of `overrides`, are overrides
// if allowed. `common`: flags that all commands have; one that the command has as well is set in both. "--" ends flags.
// Throws Error(usage) with all problems.
CommandLine parse_command_line(const std::vector<std::string>& arguments, AnyOptions& options,
                               const Overridable& overrides = {}, AnyOptions* common = nullptr);

// The environment's overrides: HONE_TRAINER__STEPS=5 is trainer.steps. Variables without "__" name no recipe path.
std::vector<std::pair<std::string, std::string>> environment_overrides(const char* const* environment);

}  // namespace hone::config
