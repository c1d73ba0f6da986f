// A model that says which texts of a step are no negatives of a query (GISTEmbed: Solatorio, 2024, arXiv:2402.16829).
#pragma once

#include <string>

#include "hone/objective.h"
#include "nn/text_embedding.h"

namespace hone {
class World;  // hone/world.h
}

namespace hone::objectives {

inline constexpr const char* kGuide = "guide";  // its role

// It reads the same tokens, and embeds as its own folder says.
class Guide {
 public:
  Guide(const std::string& folder, const RoleModel& model);
  // Error(config): the folder is none of an embedding model, or its vectors are not of the model alone.
  static void check(const std::string& folder);

  // Batch::extra[kGuided] of each batch; on all ranks alike.
  void add_to(Group& group, const World& world) const;
  Tensor vectors(const Batch& batch) const;  // of one batch on the model's device; without a graph there

 private:
  const Model& model_;
  const std::string adapter_;
  nn::Pooling pooling_ = nn::Pooling::mean;
};

}  // namespace hone::objectives
