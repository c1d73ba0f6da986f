// What Hugging Face's Trainer calls a number of the log where it gives it to a service.
#pragma once

#include <string>

namespace hone::trackers {

inline std::string tag_of(const std::string& name) {
  const bool evaluated = name.starts_with("eval_") || name.starts_with("test_");
  return evaluated ? name.substr(0, 4) + "/" + name.substr(5) : "train/" + name;
}

}  // namespace hone::trackers
