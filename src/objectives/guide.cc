// A model that says which texts are no negatives.
#include "objectives/guide.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "hone/hub.h"
#include "hone/world.h"
#include "hub/sentence_files.h"
#include "objectives/embedding_step.h"
#include "objectives/text_objective.h"
#include "tensor/host.h"

namespace hone::objectives {
namespace {

// An adapter's own folder, where that says something, stands before its model's.
std::optional<hub::SentenceFolder> said_by(const ModelPlace& place) {
  if (!place.adapter.empty())
    if (auto said = hub::read_sentence_folder(place.adapter)) return said;
  return hub::read_sentence_folder(place.folder);
}

}  // namespace

Guide::Guide(const std::string& folder, const RoleModel& model) : model_(model.model), adapter_(model.adapter) {
  const auto said = said_by(find_model(folder));
  pooling_ = said ? said->pooling : nn::usual_pooling(model_);
}

void Guide::check(const std::string& folder) {
  const ModelPlace place = find_model(folder);
  const auto said = said_by(place);
  if (!said)
    throw Error(ErrorKind::config,
                fmt::format("objective.guide: {}: {}, expected the folder of an embedding model", folder,
                            std::filesystem::exists(place.folder / "modules.json") ? "of a cross-encoder"
                                                                                   : "there is no modules.json"))
        .hint("the sentence-transformers package and objective: embedding write such folders");
  if (said->modules.empty() && !said->splade) return;
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
