// Commands of the program: one file each in src/cli.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hone/error.h"

namespace hone {

// What stood on the command line besides the command's own flags.
struct Invocation {
  std::vector<std::string> positionals;
  std::vector<std::pair<std::string, std::string>> overrides;  // --a.b.c=value, in order
  bool json = false;   // --json: results are JSON on standard output, one object a line, and nothing else is there
  bool quiet = false;  // --quiet: the log has been told already; nothing but results is printed
  std::vector<std::string> plugins = {};  // --plugin, before the command: they are loaded
  std::vector<std::pair<std::string, std::string>> flags = {};  // the command's own as they were given, in order
};

// How a command is called, for --help.
struct Usage {
  std::string synopsis;               // after the name: "RECIPE [--a.b.c=value ...]"
  std::vector<std::string> examples;  // whole command lines
  std::size_t least = 0, most = 0;    // number of positionals
  bool takes_overrides = false;
  std::vector<std::string> sections = {};  // what may be overridden as a whole, without a dot: --tokenizer=bytes
  std::vector<std::string> switches = {};  // overrides that mean true without a value: --adapter.dora
  bool together = false;                   // done by several ranks, where a launcher has started some
  bool passes_on = false;                  // what stands behind the first positional is another command's
};

// Plug-in (src/cli). Its Config holds the flags: field max_length is --max-length; every command has --json and --quiet
// besides. Made for one call.
class HONE_API Command {
 public:
  static constexpr std::string_view kInterface = "command";
  virtual ~Command() = default;
  virtual Usage usage() const = 0;
  virtual int run(const Invocation& invocation) = 0;  // the exit code; errors are thrown
};

}  // namespace hone
