// What metrics whose answers the model writes need, found before the first step: they are measured for the first time
// when much has been learnt.
#pragma once

#include <string>

#include "hone/data.h"
#include "hone/generate.h"
#include "hone/model.h"
#include "hone/recipe.h"

namespace hone {
class Tokenizer;  // hone/text.h
}

namespace hone::training {

// How the model writes, as far as metrics do not say so themselves. source: its folder; "": a fresh one.
GenerateConfig written_by(const Recipe& recipe, const std::string& source, const Model& model,
                          const Tokenizer& tokenizer);
// Error of what the model lacks for it.
void check_writing(const Recipe& recipe, const std::string& source, const Model& model, const Tokenizer& tokenizer);
// Error of what a set lacks; option: the set's, for errors.
void check_written(const Recipe& recipe, const std::string& option, const Dataset& data);

}  // namespace hone::training
