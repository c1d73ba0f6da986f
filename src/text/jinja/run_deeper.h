// Guards the stack of the machine against templates that call themselves or nest too much.
#pragma once

#include <fmt/format.h>

#include "text/jinja/fault.h"
#include "text/jinja/run.h"

namespace hone::jinja {

class Run::Deeper {
 public:
  explicit Deeper(Run& run) : run_(run) {
    if (++run_.nesting_ <= kMaxNesting) return;
    --run_.nesting_;
    throw Fault{fmt::format("calls, blocks and expressions nested deeper than {}", kMaxNesting), 0, false, true};
  }
  ~Deeper() { --run_.nesting_; }
  Deeper(const Deeper&) = delete;

 private:
  Run& run_;
};

}  // namespace hone::jinja
