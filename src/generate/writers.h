// What plug-ins that have a model write are asked and told beside their own interface, before a run's first step.
#pragma once

#include <string>

#include "hone/generate.h"

namespace hone::generate {

// An evaluation that has a model write.
class WritingMeasure {
 public:
  virtual ~WritingMeasure() = default;
  // Error(config): it could not have this model write as it says. of_folder: what the model's folder says.
  virtual void check_writing(const Model& model, const Tokenizer& tokenizer, const GenerateConfig& of_folder) const = 0;
};

// A callback that has a model write which may read sources.
class LanguageWriter {
 public:
  virtual ~LanguageWriter() = default;
  // The tokens of the languages of sources and targets; "": the tokenizer's own. Before on_training_start().
  virtual void take_languages(const std::string& source, const std::string& target) = 0;
};

}  // namespace hone::generate
