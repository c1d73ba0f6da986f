// Fields of records that mean something to some kind of training.
#include "data/training_fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/option_words.h"
#include "base/strings.h"
#include "hone/error.h"

namespace hone::data {
namespace {

using json = nlohmann::ordered_json;

constexpr std::string_view kPreference = "preference training (DPO) and reward models",
                           kReward = "reward models and reinforcement learning",
                           kVerified = "reinforcement learning with answers to compare with",
                           kMedia = "models of images, sound or video", kWeighted = "weighted training",
                           kMask = "training by masks of tokens";
constexpr std::string_view kPair = "convert the records to prompt and completion, or to messages",
                           kMessage = "weight: 0 of a message, labels of -100, or weight of a file say what is learnt",
                           kDpo =
                               "objectives dpo, orpo, cpo, kto and reward learn from pairs, hone eval --metric "
                               "preference measures on them",
                           kLabels = "give labels, with -100 for what is not learnt",
                           kAsCompletion =
                               "learns it as the completion; objectives that answer prompts, as grpo, compare "
                               "answers with it",
                           kPictures = "objective: causal_lm reads it where the model reads pictures",
                           kStored = "objective: distillation learns from it with teacher_logprobs: true",
                           kByLoss = "chooses what is learnt, for all records";

constexpr const char* kChoices[] = {"weight", "train", "training", "trainable", "loss", "loss_weight"};

// 1, 0; nullopt: it is neither.
std::optional<int> choice_of(const json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  return number == 1 ? std::optional(1) : number == 0 ? std::optional(0) : std::nullopt;
}

int take_choice(json& message, const std::string& place) {
  int choice = -1;
  const char* said_by = "";
  for (const char* name : kChoices) {
    const auto found = message.find(name);
    if (found == message.end()) continue;
    const json value = *found;
    message.erase(found);
    if (value.is_null()) continue;
    const std::optional<int> said = choice_of(value);
    if (!said)
      throw Error(ErrorKind::data, fmt::format("{}: {}: got {}, expected 0 or 1, true or false", place, name,
                                               escape_for_terminal(value.dump(), 60)))
          .hint("a message is learnt or not; there is nothing between");
    if (choice >= 0 && choice != *said)
      throw Error(ErrorKind::data, fmt::format("{}: {} and {} contradict each other", place, said_by, name));
    choice = *said;
    said_by = name;
  }
  return choice;
}

// A list of parts that are learnt, and none in it: as in Axolotl nothing of the message is.
bool has_no_part(const json& message) {
  const auto parts = message.find("train_detail");
  return parts != message.end() && parts->is_array() && parts->empty();
}

}  // namespace

const std::vector<TrainingField>& foreign_fields() {
  static const std::vector<TrainingField> fields = {
      {"label", "classification or KTO",
       "objective: classification learns it, objective: kto where it judges an answer"},
      {"kto_tag", "KTO", "objective: kto reads it as label, if columns say so"},
      {"chosen", kPreference, kDpo},
      {"rejected", kPreference, kDpo},
      {"chosen_messages", kPreference, kDpo},
      {"rejected_messages", kPreference, kDpo},
      {"chosen_score", kPreference, kPair},
      {"rejected_score", kPreference, kPair},
      {"score_chosen", kPreference, kPair},
      {"score_rejected", kPreference, kPair},
      {"margin", kPreference, kPair},
      {"score", kReward, kPair},
      {"scores", kReward, kPair},
      {"reward", kReward, kPair},
      {"rewards", kReward, kPair},
      {"completions", "reward models of steps",
       "objective: process_reward learns what is said of each of them (labels)"},
      {"solution", kVerified, kAsCompletion},
      {"answer", kVerified, kAsCompletion},
      {"ground_truth", kVerified, kAsCompletion},
      {"reward_model", kVerified, kPair},
      {"logprobs", "distillation", kStored},
      {"target_token_ids", "distillation", kStored},
      {"image", kMedia, kPictures},
      {"images", kMedia, kPictures},
      {"video", kMedia, "these models read text only"},
      {"videos", kMedia, "these models read text only"},
      {"audio", kMedia, "these models read text only"},
      {"audios", kMedia, "these models read text only"},
      {"weight", kWeighted, kMessage},
      {"sample_weight", kWeighted, kMessage},
      {"loss_weight", kWeighted, kMessage},
      {"train_on_input", kWeighted, kByLoss},
      {"loss_mask", kMask, kLabels},
      {"completion_mask", kMask, kLabels},
      {"assistant_masks", kMask, kLabels},
  };
  return fields;
}

std::string advice_of(const TrainingField& field) {
  std::string option;
  if (field.advice == kAsCompletion) option = columns_words({{"completion", std::string(field.name)}}) + " ";
  if (field.advice == kByLoss) option = option_words("data.loss") + " ";
  return option + std::string(field.advice);
}

const TrainingField* find_foreign(std::string_view name) {
  const auto& all = foreign_fields();
  const auto found = std::find_if(all.begin(), all.end(), [&](const TrainingField& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

bool is_of_pairs(std::string_view name) {
  const TrainingField* field = find_foreign(name);
  return field && field->kind == kPreference;
}

bool is_of_degrees(std::string_view name) {
  const TrainingField* field = find_foreign(name);
  return field && (field->kind == kPreference || field->kind == kReward);
}

bool is_answer(std::string_view name) {
  const TrainingField* field = find_foreign(name);
  return field && field->kind == kVerified;
}

bool is_blank(const json& value) {
  if (value.is_string()) return trim(value.get_ref<const std::string&>()).empty();
  return value.is_null() || ((value.is_array() || value.is_object()) && value.empty());
}

bool goes_with_ids(const std::string& name) {
  return name == "attention_mask" || name == "position_ids" || name == "token_type_ids";
}

std::string contradiction(const std::string& name, const json& value) {
  if (!value.is_array()) return "";
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (!value[i].is_number_integer()) continue;
    const auto number = value[i].get<std::int64_t>();
    if (name == "attention_mask" && number != 1)
      return fmt::format("attention_mask[{}] is {}; expected 1, as every token of a record is seen", i, number);
    if (name == "position_ids" && number != static_cast<std::int64_t>(i))
      return fmt::format("position_ids[{}] is {}; expected {}, as records count from 0", i, number, i);
    if (name == "token_type_ids" && number != 0)
      return fmt::format("token_type_ids[{}] is {}; expected 0, as these models know no types", i, number);
  }
  return "";
}

std::vector<int> take_choices(json& messages, const std::string& place) {
  std::vector<int> choices;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string where = fmt::format("{}: message {}", place, i + 1);
    const int choice = take_choice(messages[i], where);
    choices.push_back(choice < 0 && has_no_part(messages[i]) ? 0 : choice);
  }
  const bool said = std::any_of(choices.begin(), choices.end(), [](int one) { return one >= 0; });
  return said ? choices : std::vector<int>();
}

}  // namespace hone::data
