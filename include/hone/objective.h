// Training kinds: what the loss of a batch is.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hone/model.h"

namespace hone {

class World;  // hone/world.h

// Further models of a run: a teacher, a reference.
class HONE_API Resources {
 public:
  virtual ~Resources() = default;
  // The one that Objective::needs() has under this role: on the run's device and in its precision, never trained.
  virtual const Model& model(const std::string& role) const = 0;
};

// What an objective may look at while it prepares a step; the same on every rank.
struct StepContext {
  Model& model;
  const World& world;
  const Resources& resources;
  std::int64_t step = 0, update = 0;  // done so far: steps, as the user counts them, and updates of the weights
  std::uint64_t seed = 0;             // of the run
};

// What an objective needs besides the model.
struct Needs {
  // Of preference records the documents of a group (Doc::group) are in one micro-batch, in one row.
  RecordKind records = RecordKind::language;
  std::vector<std::string> labels = {};            // of labelled records; empty: those of the model, else of the data
  std::map<std::string, std::string> models = {};  // role -> folder, as in a recipe's model.path
};

// Plug-in (src/objectives).
class HONE_API Objective {
 public:
  static constexpr std::string_view kInterface = "objective";
  virtual ~Objective() = default;
  virtual Needs needs() const { return {}; }
  virtual void check(const Model&) const {}  // Error(config): what this model lacks
  // What is measured on evaluation sets: names of evaluations.
  virtual std::vector<std::string> evaluations() const = 0;

  // Sees the whole step before anything is counted; several groups are several updates of the weights.
  virtual Groups prepare(Group group, StepContext&) {
    Groups groups;
    groups.push_back(std::move(group));
    return groups;
  }
  // What loss() has to learn from in a micro-batch, by the names that its terms are divided by; known before any forward
  // pass. A micro-batch that has nothing of any is passed over. ("tokens", "rows", "documents" need not be counted.)
  virtual Sums sums(const Batch& batch) const = 0;
  // `output` is what the model gave for the batch. Terms that layers added to the pass are not returned again.
  virtual LossTerms loss(const Model& model, const Output& output, const Batch& batch, Pass& pass) const = 0;
};

}  // namespace hone
