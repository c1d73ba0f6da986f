// Weights that are divided among several optimizers.
#include "optim/split.h"

#include <algorithm>

#include "optim/state_names.h"

namespace hone::optim {

Split::Split(std::vector<Part> parts, Which which) : parts_(std::move(parts)), which_(std::move(which)) {}

void Split::attach(std::span<OptimizedWeight> weights) {
  std::vector<std::size_t> counts(parts_.size());
  places_.resize(weights.size());
  for (const OptimizedWeight& weight : weights) {
    const std::size_t part = which_(weight);
    places_[weight.index] = {part, counts[part]++};
  }
  each(weights, [](Optimizer& part, std::span<OptimizedWeight> its) { part.attach(its); });
  for (const OptimizedWeight& weight : weights) names_.insert(weight.name);
}

void Split::begin_update(std::span<OptimizedWeight> weights, const UpdateStep& step) {
  each(weights, [&](Optimizer& part, std::span<OptimizedWeight> its) { part.begin_update(its, step); });
}

void Split::update(std::span<OptimizedWeight> weights, const UpdateStep& step) {
  each(weights, [&](Optimizer& part, std::span<OptimizedWeight> its) { part.update(its, step); });
}

// What is of no weight bears its part's name, "prodigy/a" (in a part of parts "prodigy/a/b"): others may have the like.
void Split::each_state(const std::function<void(const std::string&, Tensor&)>& visit) {
  for (const Part& part : parts_)
    part.optimizer->each_state([&](const std::string& name, Tensor& tensor) {
      if (!weight_of(name, names_).empty()) return visit(name, tensor);
      const std::size_t end = std::min(name.find('/'), name.size());
      visit(name.substr(0, end) + "/" + part.name + name.substr(end), tensor);
    });
}

// As often as the first that needs it; parts that need none take none.
std::int64_t Split::curvature_every() const {
  for (const Part& part : parts_)
    if (const std::int64_t every = part.optimizer->curvature_every(); every > 0) return every;
  return 0;
}

void Split::take_curvature(std::span<OptimizedWeight> weights, double labels) {
  each(weights, [&](Optimizer& part, std::span<OptimizedWeight> its) { part.take_curvature(its, labels); });
}

bool Split::averages() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.optimizer->averages(); });
}

bool Split::takes_scale_there() const {
  return std::all_of(parts_.begin(), parts_.end(),
                     [](const Part& part) { return part.optimizer->takes_scale_there(); });
}

Tensor Split::average(const OptimizedWeight& weight) const {
  const Place& place = places_[weight.index];
  OptimizedWeight its = weight;
  its.index = place.index;
  return parts_[place.part].optimizer->average(its);
}

Tensor Split::average_source(const OptimizedWeight& weight) {
  const Place& place = places_[weight.index];
  OptimizedWeight its = weight;
  its.index = place.index;
  return parts_[place.part].optimizer->average_source(its);
}

double Split::weight_decay(const OptimizedWeight& weight) const {
  const Place& place = places_[weight.index];
  OptimizedWeight its = weight;
  its.index = place.index;
  return parts_[place.part].optimizer->weight_decay(its);
}

double Split::learning_rate(std::int64_t step, std::int64_t steps) const {
  return parts_[0].optimizer->learning_rate(step, steps);
}

std::vector<std::pair<std::string, const Optimizer*>> Split::parts() const {
  std::vector<std::pair<std::string, const Optimizer*>> parts;
  for (const Part& part : parts_) parts.emplace_back(part.name, part.optimizer.get());
  return parts;
}

void Split::check(std::int64_t steps, Problems& problems) const { parts_[0].optimizer->check(steps, problems); }

// Each part's, as it numbers them; tensors are the same.
void Split::each(std::span<OptimizedWeight> weights,
                 const std::function<void(Optimizer&, std::span<OptimizedWeight>)>& work) {
  std::vector<std::vector<OptimizedWeight>> divided(parts_.size());
  for (const OptimizedWeight& weight : weights) {
    const Place& place = places_[weight.index];
    divided[place.part].push_back(weight);
    divided[place.part].back().index = place.index;
  }
  for (std::size_t i = 0; i < parts_.size(); ++i)
    if (!divided[i].empty()) work(*parts_[i].optimizer, divided[i]);
}

}  // namespace hone::optim
