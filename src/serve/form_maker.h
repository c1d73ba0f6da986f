// What makes the form that a request's answers are held to.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "hone/generate.h"

namespace hone::text {
class TokenForm;
}

namespace hone::serve {

struct ToBeHeld {
  const GenerateConfig& config;
  const std::vector<std::vector<std::int32_t>>& prompts;
};
// It may take a second: it is no work for the server's own thread. Throws Refused: answers cannot be held to it.
using FormMaker = std::function<std::shared_ptr<text::TokenForm>(const ToBeHeld& answers)>;

}  // namespace hone::serve
