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

// The model follows when it goes out of scope, if anything was visited.
class UpdaterEdit final : public WeightEdit {
 public:
  explicit UpdaterEdit(Updater& updater) : updater_(updater) {}
  ~UpdaterEdit() override {
    if (visited_) updater_.restored();
  }
  void each(const Visit& visit) override {
    visited_ = true;
    updater_.each_master([&](Slice& master) { visit(master.name, master.part); });
  }
  void each_average(const Visit& visit) override { updater_.each_average_source(visit); }

 private:
  Updater& updater_;
  bool visited_ = false;
};

}  // namespace hone::training
