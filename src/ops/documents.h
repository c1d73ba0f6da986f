// Where documents lie on the axis of tokens: one object for all layers of a pass, in which a device's table keeps what
// it makes of them once.
#pragma once

#include <ATen/core/Tensor.h>

#include <any>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <typeindex>
#include <utility>
#include <vector>

#include "hone/op_options.h"

namespace hone::ops {

// Copies are the same object. Not thread-safe: a pass and its backward pass follow each other.
class Documents {
 public:
  // Where sequences end that every token is in one of, on a device: 0, then an end for each, int32; the last one again
  // where there is room for more of them than there are. None is longer than `longest`.
  struct Ends {
    at::Tensor ends;
    std::int64_t longest = 0;
  };

  Documents(std::vector<Span> spans = {}, std::optional<Ends> there = {})
      : shared_(std::make_shared<Shared>(Shared{std::move(spans), std::move(there), false, {}})) {}
  Documents(std::initializer_list<Span> spans) : Documents(std::vector<Span>(spans)) {}

  const std::vector<Span>& spans() const {
    shared_->spans_were_asked = true;
    return shared_->spans;
  }
  // The same for measures of work, which change nothing of what is computed.
  const std::vector<Span>& counted_spans() const { return shared_->spans; }

  // Null: only the host knows. What is computed by them alone, and not by spans(), is good for other documents, too,
  // whose ends come to the same place (ops/recording.h).
  const Ends* there() const { return shared_->there ? &*shared_->there : nullptr; }
  bool spans_were_asked() const { return shared_->spans_were_asked; }

  // What make() gave when it was asked for first, for each type of it. REQUIRES: made for the device of the pass.
  template <class Make>
  const auto& kept(Make&& make) const {
    using Made = decltype(make());
    std::any& kept = shared_->kept[typeid(Made)];
    if (!kept.has_value()) kept = make();
    return *std::any_cast<Made>(&kept);
  }

 private:
  struct Shared {
    std::vector<Span> spans;
    std::optional<Ends> there;
    bool spans_were_asked;
    std::map<std::type_index, std::any> kept;
  };
  std::shared_ptr<Shared> shared_;
};

}  // namespace hone::ops
