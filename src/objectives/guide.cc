// A model that says which texts are no negatives.
#include "objectives/guide.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "hone/hub.h"
#include "hone/world.h"
#include "hub/sentence_files.h"
#include "objectives/embedding_step.h"
#include "objectives/text_objective.h"
#include "tensor/host.h"

namespace hone::objectives {

Guide::Guide(const std::string& folder, const RoleModel& model) : model_(model.model), adapter_(model.adapter) {
  const auto said = hub::read_sentence_folder(find_model(folder).folder);
  pooling_ = said ? said->pooling : nn::usual_pooling(model_);
}

void Guide::check(const std::string& folder) {
  const auto said = hub::read_sentence_folder(find_model(folder).folder);
  if (!said || (said->modules.empty() && !said->splade)) return;
  throw Error(ErrorKind::config,
              fmt::format("objective.guide: {}: its vectors are made by {}, expected Transformer, Pooling, Normalize",
                          folder, said->splade ? "SpladePooling" : "Dense or LayerNorm"))
      .hint("another embedding model of the same tokenizer can be the guide");
}

Tensor Guide::vectors(const Batch& batch) const {
  Pass pass(batch);
  pass.adapter = adapter_;
  return nn::pooled(model_.forward(batch, pass), batch, pooling_).to(at::kFloat);
}

void Guide::add_to(Group& group, const World& world) const {
  const std::vector<Tensor> made = of_all_batches(
      group, model_, world, [&](const Batch& batch, std::size_t) { return host::read(vectors(batch)); });
  for (std::size_t i = 0; i < group.size(); ++i) group[i].extra[kGuided] = made[i];
}

}  // namespace hone::objectives
