// Checking what metrics of written answers need.
#include "train/check_written.h"

#include "generate/writers.h"
#include "hone/error.h"
#include "hone/hub.h"
#include "train/make_objective.h"

namespace hone::training {

GenerateConfig written_by(const Recipe& recipe, const std::string& source, const Model& model,
                          const Tokenizer& tokenizer) {
  GenerateConfig made;
  if (writes_answers(recipe) && !source.empty()) made = generation_defaults(source, model.vocab_size());
  if (const std::string language = make_objective(recipe)->needs().target_language; !language.empty())
    if (const auto id = tokenizer.id_of(language)) made.forced_bos_token_id = *id;
  return made;
}

void check_writing(const Recipe& recipe, const std::string& source, const Model& model, const Tokenizer& tokenizer) {
  if (!writes_answers(recipe)) return;
  const GenerateConfig of_folder = written_by(recipe, source, model, tokenizer);
  for (const auto& metric : make_metrics(recipe))
    if (const auto* writer = dynamic_cast<const generate::WritingMeasure*>(metric.get()))
      writer->check_writing(model, tokenizer, of_folder);
}

void check_written(const Recipe& recipe, const std::string& option, const Dataset& data) {
  for (const auto& metric : make_metrics(recipe))
    during("looking at " + option, [&] { metric->check_data(data.report()); });
}

}  // namespace hone::training
