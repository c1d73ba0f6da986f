// Data as `hone inspect data` is given it: a recipe, or files with flags.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/record_flags.h"
#include "hone/config.h"
#include "hone/data.h"

namespace hone::cli {

// Of labels for tokens.
struct TokenFlags {
  bool label_all_tokens = false;
  std::optional<std::string> step_separator;
  static constexpr auto fields() {
    using C = TokenFlags;
    return std::tuple{field("label_all_tokens", &C::label_all_tokens,
                            "Of tagged records: each token of a word has its label, and not the first alone."),
                      field("step_separator", &C::step_separator,
                            "Of steps: what follows each step, and carries its label; default: a new line.")};
  }
};
// As data options say it. Throws Error(usage) for a flag that records of this kind do not have.
TokenLabels token_labels_of(const TokenFlags& flags, RecordKind records, const std::string& prefix);
// Likewise.
QuestionOptions questions_of(const std::optional<std::int64_t>& doc_stride, RecordKind records,
                             const std::string& prefix);

struct DataFlags : TokenFlags {
  using Base = TokenFlags;
  std::string tokenizer = "bytes";
  std::vector<std::string> columns, ignore;
  std::int64_t max_length = 1024;
  Overlong overlong = Overlong::split;
  std::optional<Packing> packing;
  RecordKind records = RecordKind::language;
  ProblemType problem_type = ProblemType::single_label_classification;
  bool append_eos = true;
  std::optional<Loss> loss;
  std::string chat_template, chat_template_kwargs, image_folder;
  std::optional<std::int64_t> max_samples, doc_stride;
  static constexpr auto own_fields() {
    using C = DataFlags;
    return std::tuple{
        field("tokenizer", &C::tokenizer, "bytes, none (for rows of ids), a folder or a tokenizer.json."),
        columns_flag<C>(),
        ignore_flag<C>(),
        field("image_folder", &C::image_folder,
              "Folder that the paths of pictures start from; default: the file's own."),
        field("max_length", &C::max_length, "Longest row in tokens.", at_least(1)),
        field("overlong", &C::overlong,
              "What to do with longer records; split cuts texts into several, and the start off a prompt."),
        field("packing", &C::packing,
              "How records share rows; they never see each other; default: best_fit, for labelled records none."),
        field("records", &C::records,
              "What they are read for: language, labelled (text and label: objective classification), preference "
              "(chosen, rejected and their prompt: dpo, orpo, cpo, reward), judged (an answer with its label: kto), "
              "asked (a prompt, an answer to compare with: grpo, rloo), choice (a prompt, choices, and which of them "
              "is the answer), tagged (tokens and tags, or text and entities: token_classification), steps (prompt, "
              "completions and labels: process_reward), embedding, seq2seq or question (question, context and "
              "answers: question_answering)."),
        field("problem_type", &C::problem_type,
              "Of labelled records: what the field label has: one label, several (multi_label_classification) or "
              "numbers (regression)."),
        append_eos_flag<C>(),
        field(
            "loss", &C::loss,
            "Which tokens are learnt: all, the assistant's turns, the last of them, or the completion; default: all of "
            "a text, the completion of a pair, the assistant's turns of a conversation."),
        chat_template_flag<C>(),
        chat_template_kwargs_flag<C>(),
        field("max_samples", &C::max_samples, "Only this many records of each file, the first ones.", at_least(1)),
        field("doc_stride", &C::doc_stride, "Of questions: tokens that two windows of a text share; default: 128.",
              at_least(0))};
  }
  static constexpr auto fields() { return std::tuple_cat(own_fields(), Base::fields()); }
};

// "text=story" as a renamed column; throws Error(usage), also for one that is given twice.
std::map<std::string, std::string> parse_columns(const std::vector<std::string>& renames);

bool is_recipe(const std::string& path);  // .yaml, .yml

struct DataToInspect {
  std::shared_ptr<const Dataset> data;
  std::shared_ptr<const Tokenizer> tokenizer;
  bool may_have_ids = false;  // records of ids, which another tokenizer may have made
};
// paths: one recipe (.yaml, .yml), or data files.
DataToInspect read_data(const std::vector<std::string>& paths, const DataFlags& flags);

}  // namespace hone::cli
