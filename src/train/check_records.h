// Records that an objective does not learn, found before the first step.
#pragma once

#include <string>

#include "hone/data.h"
#include "hone/model.h"
#include "hone/objective.h"
#include "hone/recipe.h"

namespace hone::training {

// Whether numbers are learnt, which may be beyond what an objective takes.
bool is_of_numbers(const Needs& needs);

// Of texts to embed or to rank and of numbers: the first record of each kind is shown to the objective, which refuses
// what it does not learn. Error(data).
void check_records(const Recipe& recipe, Model& model, const Dataset& data);

// Of training data: that negatives which are to weigh more are there. Error(data).
void check_negatives(const Recipe& recipe, const Dataset& data);

// Of training data whose texts have labels: that two have the same one, and two have others. Error(data).
void check_classes(const Recipe& recipe, const Dataset& data);
// Of a set that is measured: that two have the same one. option: begins the message. Error(data).
void check_measured_classes(const Recipe& recipe, const std::string& option, const Dataset& data);

// Of texts to rank: that there is an order to learn, or, of a set that is measured, to compare with. Error(data).
void check_orders(const Recipe& recipe, const Dataset& data);
void check_measured_orders(const Recipe& recipe, const std::string& option, const Dataset& data);

}  // namespace hone::training
