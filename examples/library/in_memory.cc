// hone's trainer with data in memory: its parts are looked at and replaced before the run.
//
//   in_memory FOLDER     where the run lives
#include <iostream>

#include "hone/data_in_memory.h"
#include "hone/trainer.h"

int main(int count, char** arguments) try {
  if (count != 2) throw hone::Error(hone::ErrorKind::usage, "expected FOLDER");
  const auto tokenizer = hone::load_tokenizer("bytes");
  std::vector<hone::Record> texts;
  for (int i = 0; i < 200; ++i) texts.push_back({hone::TextRecord{"the " + std::to_string(i) + "th line"}});
  const auto all = hone::make_dataset(texts, "lines", *tokenizer, {.max_length = 32});
  const auto [held_out, rest] = all->split(0.2, /*seed=*/1);

  hone::TrainerInputs inputs;
  inputs.train = rest;
  inputs.evals = {{"lines", held_out}};
  hone::Recipe recipe;  // or of a file; what is given in memory it does not name
  recipe.model.config["type"].node = hone::config::Node::scalar("llama");
  for (const auto& [key, value] : {std::pair("hidden_size", "32"), std::pair("intermediate_size", "64"),
                                   std::pair("num_hidden_layers", "2"), std::pair("num_attention_heads", "4"),
                                   std::pair("max_position_embeddings", "64")})
    recipe.model.config[key].node = hone::config::Node::scalar(value);
  recipe.tokenizer = "bytes";
  recipe.trainer.batch_size = 4;
  recipe.trainer.steps = 100;
  recipe.data.max_length = 32;
  recipe.run.folder = arguments[1];

  hone::Trainer trainer(recipe, std::move(inputs));
  trainer.replace(trainer.configure_dataloaders().replace([](hone::RunData& data) { data.max_training_steps = 30; }));
  trainer.replace(trainer.configure_model().replace(
      [](hone::RunModel& model) { model.optimizer = hone::read_optimizer("{type: adamw, learning_rate: 1e-2}"); }));

  const double before = trainer.evaluate().at("eval_loss");
  hone::TrainOutput output = trainer.run();
  std::cout << output.last_save_file_name << ", trained by " << output.state->optimizer().type << '\n';
  double batches = 0;
  const hone::Metrics after =
      trainer.evaluate(*output.state, [&](const hone::EvaluationStep& step) { batches = double(step.step); });
  std::cout << batches << " batches: the loss has " << (after.at("eval_loss") < before ? "fallen" : "not fallen")
            << '\n';
  return 0;
} catch (const hone::Error& error) {
  std::cerr << "error: " << error.what() << '\n';
  return static_cast<int>(error.kind());
}
