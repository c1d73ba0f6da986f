// hone as a library: train by a recipe, then ask the model.
//
//   train_and_answer RECIPE PROMPT
#include <iostream>

#include "hone/generate.h"
#include "hone/hub.h"
#include "hone/trainer.h"

int main(int count, char** arguments) try {
  if (count != 3) throw hone::Error(hone::ErrorKind::usage, "expected RECIPE PROMPT");
  hone::Recipe recipe = hone::read_recipe(arguments[1]);
  recipe.trainer.log_every = 5;
  const hone::Summary summary = hone::train(recipe);

  const auto model = hone::load_model(summary.folder, hone::Precision::fp32);
  const auto tokenizer = hone::load_tokenizer(summary.checkpoint);
  hone::Generator generator(*model, tokenizer);
  hone::GenerateConfig options;
  options.max_new_tokens = 16;
  const auto answers = generator.generate({tokenizer->encode(arguments[2]).ids}, options);
  std::cout << arguments[2] << answers[0].text << '\n';
  return 0;
} catch (const hone::Error& error) {
  std::cerr << "error: " << error.what() << '\n';
  return static_cast<int>(error.kind());
}
