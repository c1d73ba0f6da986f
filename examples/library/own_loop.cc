// A training loop of one's own, over records in memory: forward, loss, backward and update by hand.
//
//   own_loop FOLDER     trains a tiny model, saves it in FOLDER, loads it again and goes on
#include <ATen/ATen.h>

#include <iostream>

#include "hone/data_in_memory.h"
#include "hone/hub.h"
#include "hone/objective.h"
#include "hone/registry.h"
#include "hone/train_state.h"

namespace {

hone::config::Node yaml(const std::string& text) {
  hone::Problems problems;
  hone::config::Node node = hone::config::parse_yaml(text, "own_loop", problems);
  problems.raise();
  return node;
}

std::shared_ptr<hone::Model> tiny_model() {
  std::shared_ptr<hone::Model> model = hone::build_model(
      yaml("{model_type: llama, vocab_size: 259, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, "
           "num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 64}"),
      "tiny model");
  hone::init_weights(*model, /*seed=*/1, hone::Precision::fp32);
  return model;
}

// One step: the micro-batches' gradients, each loss a share of the step's mean, then one update.
double train_step(hone::TrainState& state, const hone::Objective& objective, hone::Loader& loader) {
  hone::Group group;
  double targets = 0, loss = 0;
  for (const hone::HostBatch& batch : loader.next()) {
    group.push_back(hone::to_batch(batch));
    targets += double(group.back().supervised);
  }
  for (std::size_t i = 0; i < group.size(); ++i) {
    hone::Pass pass(group[i]);
    pass.training = true;
    pass.seed = state.pass_seed(i);
    const hone::Output output = state.model().forward(group[i], pass);
    const hone::Tensor sum = objective.loss(state.model(), output, group[i], pass).terms[0].sum;
    state.backward(sum / targets);
    loss += sum.item<double>() / targets;
  }
  state.apply_gradients({.max_grad_norm = 1});
  return loss;
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 2) throw hone::Error(hone::ErrorKind::usage, "expected FOLDER");
  const auto tokenizer = hone::load_tokenizer("bytes");
  std::vector<hone::Record> sums;
  for (int a = 0; a < 10; ++a)
    for (int b = 0; b < 10; ++b)
      sums.push_back({hone::PromptRecord{std::to_string(a) + "+" + std::to_string(b) + "=", std::to_string(a + b)}});
  const auto data = hone::make_dataset(sums, "sums", *tokenizer, {.max_length = 32});
  const auto objective = hone::registries().objectives.make({"causal_lm", nullptr});
  hone::Loader loader(data, {.batch_size = 4, .accumulate = 2});

  hone::TrainState state = hone::TrainState::create(
      {.model = tiny_model(),
       .optimizer = hone::read_optimizer("{type: adamw, learning_rate: 1e-2, schedule: cosine}"),
       .init_optimizer = true,
       .steps = 40});
  const double first = train_step(state, *objective, loader);
  while (state.step() < 20) train_step(state, *objective, loader);
  state.save(arguments[1], {.tokenizer = tokenizer});
  std::cout << "saved at step " << state.step() << ", " << state.size_bytes() << " bytes\n";

  hone::TrainState again = hone::TrainState::load(arguments[1]);
  loader.seek(again.step());
  double last = first;
  while (again.step() < again.steps()) last = train_step(again, *objective, loader);
  std::cout << "step " << again.step() << ": the loss has " << (last < first / 2 ? "fallen" : "not fallen") << '\n';
  return last < first / 2 ? 0 : 1;
} catch (const hone::Error& error) {
  std::cerr << "error: " << error.what() << '\n';
  return static_cast<int>(error.kind());
}
