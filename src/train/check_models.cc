// Models that go together.
#include "train/check_models.h"

#include <fmt/format.h>

#include "base/log.h"
#include "hone/hub.h"
#include "hub/own_tokenizer.h"
#include "nn/pair_scores.h"
#include "train/follower.h"

namespace hone::training {
namespace {

// A model beside the one that is trained is asked about the same token ids, in documents as long.
void check_role(const std::string& role, const std::filesystem::path& folder, const Needs& needs, const Recipe& recipe,
                const RunsOwn& own) {
  const std::string option = "objective." + role, file = (folder / "config.json").string();
  const std::unique_ptr<Model> other = build_model(config::read_file(file), file);
  const bool scores = needs.models_with_scores.contains(role);
  if (scores)
    nn::require_score(*other, option);
  else if (needs.models_are_language_models)
    require_causal_lm(*other, option);
  check_lengths(*other, option + ": ", needs, recipe);
  if (needs.following.contains(role)) check_can_follow(*other, own.model, needs.following.at(role));
  const std::int64_t theirs = other->vocab_size(), ours = own.model.vocab_size();
  const bool same = needs.models_read_same_tokens || scores;
  if (theirs < ours || (theirs > ours && !same))
    throw Error(ErrorKind::config, fmt::format("{}: {} has a vocabulary of {}, and the model one of {}", option,
                                               folder.string(), theirs, ours))
        .hint("both are asked about the same token ids");
  if (same) hub::check_same_tokens(own.tokenizer, folder, option);
}

}  // namespace

void check_lengths(const Model& model, const std::string& who, const Needs& needs, const Recipe& recipe) {
  const std::int64_t most = recipe.data.max_length + needs.answer_tokens;
  const std::string what = needs.answers > 0 ? "data.max_length + objective.max_completion_length" : "data.max_length";
  model.check_length(most, who + what);
  if (most > model.max_positions() && (!who.empty() || needs.answers > 0))
    log::warning("{}{} {} is beyond its max_position_embeddings {}", who, what, most, model.max_positions());
}

void check_other_models(const Needs& needs, const Recipe& recipe, const RunsOwn& own) {
  for (const auto& [role, where] : needs.models) {
    if (where.empty() && own.in_memory)
      throw Error(ErrorKind::config, fmt::format("objective {}: its {} is the model as the run began, which was given "
                                                 "in memory, where it is trained",
                                                 recipe.objective.type, role))
          .hint(fmt::format("objective.{} names a folder that holds it", role));
    if (!where.empty())
      during("looking for the " + role,
             [&, &its = role] { check_role(its, find_model_folder(where), needs, recipe, own); });
  }
}

}  // namespace hone::training
