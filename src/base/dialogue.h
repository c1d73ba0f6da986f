// A command of the user's that is spoken with line by line, for as long as there is something to say.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/child_options.h"

namespace hone {

// /bin/sh -c `command` as run_shell() has it, with standard input and output that stay open: it and all that it has
// started end with this process. One thread at a time.
class Dialogue {
 public:
  // options.seconds: from what was said to it, or a line of its own, to its next line; and for its end. Starts it.
  Dialogue(const std::string& command, const ChildOptions& options);
  ~Dialogue();  // ends it, with all that it has started

  struct Heard {
    std::string failure;             // "": it said as much as was expected; afterwards it has ended otherwise
    std::vector<std::string> lines;  // without line ends
  };
  // Says these lines, and hears so many. It may answer each at once, or all when it has read them.
  Heard say(const std::string& lines, std::size_t expected);
  // Shuts its input and waits for its end. "": it ended with 0, and has said nothing more.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hone
