// What callbacks see of an updater's weights.
#pragma once

#include "hone/callback.h"
#include "train/updater.h"

namespace hone::training {

class UpdaterWeights final : public RunWeights {
 public:
  explicit UpdaterWeights(Updater& updater) : updater_(updater) {}
  void each(const Visit& visit) const override {
    updater_.each_master([&](const Slice& master) { visit(master.name, master.part); });
  }
  void each_gradient(const Visit& visit) const override { updater_.each_gradient(visit); }
  bool shared_out() const override { return updater_.sharded(); }
  bool averaged() const override { return updater_.averaged(); }

 private:
  Updater& updater_;
};

// Visits a weight or an average of that name, and puts what was assigned to it where it lies.
void visit_to_change(const std::string& name, Tensor& value, const WeightEdit::Visit& visit);

// The model follows when it goes out of scope, if anything was visited.
class UpdaterEdit final : public WeightEdit {
 public:
  explicit UpdaterEdit(Updater& updater) : updater_(updater) {}
  ~UpdaterEdit() override {
    if (visited_) updater_.restored();
  }
  void each(const Visit& visit) override {
    visited_ = true;
    updater_.each_master([&](Slice& master) { visit_to_change(master.name, master.part, visit); });
  }
  void each_average(const Visit& visit) override {
    updater_.each_average_source(
        [&](const std::string& name, Tensor& average) { visit_to_change(name, average, visit); });
  }

 private:
  Updater& updater_;
  bool visited_ = false;
};

}  // namespace hone::training
