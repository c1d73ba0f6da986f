// Training with the library's means alone, as its users do.
#pragma once

#include "hone/hub.h"
#include "hone/registry.h"
#include "hone/train_state.h"
#include "train/support.h"

namespace hone::test {

// What `hone train` trains on, by the library's public means.
struct Pieces {
  explicit Pieces(const Recipe& given) : recipe(given), tokenizer(load_tokenizer(given.tokenizer)) {
    registries();
    Dataset::Options options;
    options.max_length = recipe.data.max_length;
    data = Dataset::make(recipe.data.train, *tokenizer, options);
    objective = registries().objectives.make(recipe.objective);
    config::Node config = config::Node::map();
    for (const auto& [key, value] : recipe.model.config)
      config.at_or_add(key == "type" ? "model_type" : key) = value.node;
    for (const auto& [key, id] : std::vector<std::pair<const char*, int>>{
             {"vocab_size", 259}, {"bos_token_id", 256}, {"eos_token_id", 257}, {"pad_token_id", 258}})
      config.at_or_add(key) = config::Node::scalar(std::to_string(id));
    model = build_model(config, "model");
    init_weights(*model, recipe.run.seed, Precision::fp32);
  }
  Recipe recipe;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const Dataset> data;
  std::unique_ptr<Objective> objective;
  std::shared_ptr<Model> model;
  std::int64_t steps() const { return *recipe.trainer.steps; }
  StateParts parts() const {
    return {.model = model,
            .optimizer = recipe.optimizer,
            .init_optimizer = true,
            .steps = steps(),
            .seed = recipe.run.seed,
            .precision = recipe.trainer.precision};
  }
};

// The loop that a user writes.
inline void train_by_hand(const Pieces& pieces, TrainState& state, std::int64_t until) {
  const TrainerSection& trainer = pieces.recipe.trainer;
  Loader loader(pieces.data,
                {trainer.batch_size, trainer.accumulate, pieces.recipe.run.seed, true, *pieces.tokenizer->pad_id});
  loader.seek(state.step());
  while (state.step() < until) {
    Group group;
    double targets = 0;
    for (const HostBatch& host : loader.next()) {
      group.push_back(to_batch(host));
      targets += pieces.objective->sums(group.back()).at("targets");
    }
    for (std::size_t i = 0; i < group.size(); ++i) {
      Pass pass(group[i]);
      pass.training = true;
      pass.seed = state.pass_seed(i);
      const Output output = state.model().forward(group[i], pass);
      const LossTerms terms = pieces.objective->loss(state.model(), output, group[i], pass);
      state.backward(terms.terms.at(0).sum / targets);
      state.count_tokens(group[i].tokens);
    }
    state.apply_gradients({.max_grad_norm = trainer.max_grad_norm, .max_grad_value = trainer.max_grad_value});
  }
}

}  // namespace hone::test
