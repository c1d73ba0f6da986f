// Fields of records that mean something to some kind of training: used, or refused, never passed over.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hone::data {

struct TrainingField {
  std::string_view name;
  std::string_view kind;    // of training that uses it
  std::string_view advice;  // advice_of() says it
};
// Those that no objective of this program uses; the table of docs/formats.md.
const std::vector<TrainingField>& foreign_fields();
std::string advice_of(const TrainingField& field);  // what to do instead
// The entry of that name; nullptr: the field is known to nobody.
const TrainingField* find_foreign(std::string_view name);

// Whether the field says something about a preference pair.
bool is_of_pairs(std::string_view name);
bool is_of_degrees(std::string_view name);  // of pairs or rewards: says how good something is

// Whether answers are compared with the field.
bool is_answer(std::string_view name);

// Whether a value says nothing: null, an empty text, list or object.
bool is_blank(const nlohmann::ordered_json& value);

// What contradicts the record in a field that goes with ids (attention_mask, position_ids, token_type_ids): "" if it
// only says what holds anyway.
std::string contradiction(const std::string& name, const nlohmann::ordered_json& value);
bool goes_with_ids(const std::string& name);

// Takes `weight`, `train`, `training`, `trainable`, `loss` and `loss_weight` out of the messages: 1, the message is to
// be learnt; 0, it is not; -1, it does not say. A `train_detail` without parts, which stays, is a 0, too. Empty: none
// of them says anything. Throws Error(data) that begins with `place` for other values and for what contradicts itself.
std::vector<int> take_choices(nlohmann::ordered_json& messages, const std::string& place);

}  // namespace hone::data
