// The head that a run needs for its labels, and which labels these are.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/labels.h"
#include "hone/model.h"
#include "hone/objective.h"
#include "hone/recipe.h"

namespace hone::training {

// Whether labels are of such records, or of their tokens.
inline bool are_labelled(RecordKind records) { return records == RecordKind::labelled || data::are_of_tokens(records); }

// What labelled records are to have, where it is known before they are read: as the objective says, else as the
// model's head does.
std::vector<std::string> known_labels(const Needs& needs, const Model& model);

// The model once more, with such a head and so far without weights; null: it has one. config: its config.json, in
// `file`. in_memory: the model was given as it is.
std::unique_ptr<Model> model_with_head(const Model& model, const HeadRequest& head, const config::Node& config,
                                       const std::string& file, const Recipe& recipe, bool in_memory);
// Whether what it has is for other labels.
bool has_other_labels(const Model& model, const HeadRequest& head);

}  // namespace hone::training
