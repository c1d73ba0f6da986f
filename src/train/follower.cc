// Models that follow the one that is trained.
#include "train/follower.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/strings.h"
#include "hub/memory.h"
#include "tensor/dtype.h"
#include "tensor/host.h"
#include "train/named_tensors.h"

namespace hone::training {

void check_can_follow(const Model& other, const Model& trained, const Following& how) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  trained.each_weight([&](const std::string& name, const Weight& weight) { shapes[name] = weight.shape(); });
  const auto refuse = [&](const std::string& name, const std::string& got, const std::string& expected) {
    throw Error(ErrorKind::config, fmt::format("objective.{}: {}: got {}, expected {} as in the model that is trained",
                                               how.option, name, got, expected))
        .hint("a model follows only one that it is made like");
  };
  other.each_weight([&](const std::string& name, const Weight& weight) {
    const auto found = shapes.find(name);
    if (found == shapes.end()) refuse(name, shape_text(weight.shape()), "no such weight");
    if (found->second != weight.shape()) refuse(name, shape_text(weight.shape()), shape_text(found->second));
    shapes.erase(found);
  });
  if (!shapes.empty()) refuse(shapes.begin()->first, "no such weight", shape_text(shapes.begin()->second));
}

Follower::Follower(std::shared_ptr<Model> model, Following how, Precision run)
    : model_(std::move(model)), how_(std::move(how)), mixed_(has_masters(run)), type_(hub::type_of(run)) {
  model_->each_weight([&](const std::string& name, Weight& weight) {
    if (!weight.is_buffer()) put(weight, name, weight.use().detach());
  });
}

void Follower::put(Weight& weight, const std::string& name, Tensor value) {
  weight.fill(mixed_ ? value.to(type_) : value);
  masters_[name] = std::move(value);
}

// As TRL's callback has it, whose order of roundings is kept. New tensors: the old ones may lie in a file, or be on
// their way into a checkpoint.
void Follower::follow(const Model& trained, Updater& updater) {
  const c10::NoGradGuard no_grad;
  std::map<std::string, Tensor> ahead;
  trained.each_weight([&](const std::string& name, const Weight& weight) { ahead[name] = weight.use().detach(); });
  updater.each_master([&](Slice& master) { ahead[master.name] = master.part.detach(); });
  model_->each_weight([&](const std::string& name, Weight& weight) {
    if (weight.is_buffer()) return;
    const Tensor& own = masters_.at(name);
    put(weight, name, own.mul(1 - how_.share).add_(ahead.at(name).to(own.scalar_type()), how_.share));
  });
  moved_ = true;
}

void Follower::each(const std::function<void(const Slice&)>& visit) const {
  if (!moved_) return;
  for (const auto& [name, master] : masters_) visit({name, master.sizes().vec(), 0, master});
}

void Follower::restore(const Safetensors& file, const std::string& prefix) {
  model_->each_weight([&](const std::string& name, Weight& weight) {
    if (weight.is_buffer()) return;
    const Tensor& own = masters_.at(name);
    const TensorInfo& found = info_of(file, prefix + name);
    const std::string type = safetensors_name(own.scalar_type());
    if (found.dtype != type || found.shape != own.sizes().vec())
      throw Error(ErrorKind::checkpoint,
                  fmt::format("{}: {}: got {} {}, expected {} {}", file.path().string(), found.name, found.dtype,
                              shape_text(found.shape), type, shape_text(own.sizes())));
    const Tensor value = at::empty_like(own);
    host::fill_bytes(value, [&](std::span<std::byte> bytes) { file.read(found, bytes); });
    put(weight, name, value);
  });
  moved_ = true;
}

}  // namespace hone::training
