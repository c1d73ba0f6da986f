// Where documents lie on the axis of tokens: one object for all layers of a pass, in which a device's table keeps what
// it makes of them once.
#pragma once

#include <any>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "hone/op_options.h"

namespace hone::ops {

// Copies are the same object. Not thread-safe: a pass and its backward pass follow each other.
class Documents {
 public:
  Documents(std::vector<Span> spans = {}) : shared_(std::make_shared<Shared>(Shared{std::move(spans), {}})) {}
  Documents(std::initializer_list<Span> spans) : Documents(std::vector<Span>(spans)) {}

  const std::vector<Span>& spans() const { return shared_->spans; }

  // What make() gave when it was asked for first. REQUIRES: one type, made for the device of the pass.
  template <class Make>
  const auto& kept(Make&& make) const {
    using Made = decltype(make());
    if (!shared_->kept.has_value()) shared_->kept = make();
    return *std::any_cast<Made>(&shared_->kept);
  }

 private:
  struct Shared {
    std::vector<Span> spans;
    std::any kept;
  };
  std::shared_ptr<Shared> shared_;
};

}  // namespace hone::ops
