// Gloo's headers are not in LibTorch's package, Gloo itself is. c10d's header of its process group names these types and
// nothing more: they are declared, never made or called here.
#pragma once
#include <chrono>
namespace gloo {
class Context {
 public:
  void setTimeout(std::chrono::milliseconds);
  std::chrono::milliseconds getTimeout() const;
};
}  // namespace gloo
