// The recipe's section `data`: what is trained, evaluated and tested on, and how its records become rows.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hone/config_read.h"
#include "hone/data.h"

namespace hone {

struct EvalSection {
  std::optional<double> held_out;
  std::map<std::string, std::vector<DataFile>> files;
  static constexpr std::string_view kRest = "files";
  static constexpr auto fields() {
    using C = EvalSection;
    return std::tuple{
        field("held_out", &C::held_out,
              "Share of the training records that is held out and evaluated instead of trained on.",
              {.low = 0, .high = 0.9}),
        field("files", &C::files, "Named evaluation sets, each a file or a list of files: `news: data/news.jsonl`.",
              OnResume::record)};
  }
};

struct TestSection {
  std::map<std::string, std::vector<DataFile>> files;
  static constexpr std::string_view kRest = "files";
  static constexpr auto fields() {
    using C = TestSection;
    return std::tuple{field("files", &C::files, "Named test sets, each a file or a list of files.", OnResume::free)};
  }
};

// Documents that are short at first.
struct LengthWarmup {
  std::int64_t steps = 0, from = 64, multiple = 8;
  double power = 1;
  static constexpr std::string_view kShorthand = "steps";
  static constexpr auto fields() {
    using C = LengthWarmup;
    return std::tuple{
        field("steps", &C::steps,
              "After how many steps documents are as long as data.max_length lets them be; 0 = no "
              "warm-up.",
              at_least(0)),
        field("from", &C::from, "Tokens that a document has at most in the first step.", at_least(2)),
        field("multiple", &C::multiple, "The length grows by multiples of this, seen from 0.", at_least(1)),
        field("power", &C::power,
              "After the share t of the steps the length has come the share t^power of its way: 1 is a line, 0.5 the "
              "square root.",
              {.low = 0.01, .high = 100})};
  }
};

struct DataSection {
  std::vector<DataFile> train;
  EvalSection eval;
  TestSection test;
  std::int64_t max_length = 1024;
  LengthWarmup length_warmup;
  Overlong overlong = Overlong::split;
  std::optional<Packing> packing;
  config::Choice<Collator> collator{"pad", nullptr};
  bool shuffle = true, append_eos = true, deduplicate = false;
  std::optional<Loss> loss;
  std::string chat_template;
  std::map<std::string, config::Open> chat_template_kwargs;
  std::optional<std::string> cache;
  std::int64_t stream_window = 1024;
  static constexpr auto fields() {
    using C = DataSection;
    return std::tuple{
        field("train", &C::train, "Files to train on."),
        field("eval", &C::eval, "What to evaluate on."),
        field("test", &C::test, "What `hone test` measures the run's best checkpoint on; training never reads it."),
        field("max_length", &C::max_length, "Tokens in a row; more cost memory and time, fewer cut documents.",
              at_least(2)),
        field(
            "length_warmup", &C::length_warmup,
            "Let documents be short in the first steps: what is longer is cut within its row, texts into several that "
            "do not see each other, and others as overlong: split cuts. Rows, epochs and evaluations stay as they "
            "are."),
        field(
            "overlong", &C::overlong,
            "What happens to records longer than max_length: split cuts texts into several, the start off a prompt and "
            "the end off labelled texts; keep_start, keep_end and drop lose the rest, error stops; all of it is "
            "counted and printed."),
        field("packing", &C::packing,
              "How documents share rows: best_fit fills rows with whole documents, concat cuts at row ends, none gives "
              "each its own row; default: best_fit, for labelled texts none."),
        field("collator", &C::collator, "How rows become batches."),
        field("shuffle", &C::shuffle,
              "A new order of rows in each epoch, from run.seed; false: the order of the files."),
        field("deduplicate", &C::deduplicate,
              "Leave out records of the training files that are the same as an earlier one, token by token; said and "
              "counted. Not of streams."),
        field("append_eos", &C::append_eos,
              "End texts and completions with the tokenizer's end-of-sequence token, and train on it."),
        field(
            "loss", &C::loss,
            "Which tokens are learnt: all, the assistant's turns, the last of them, or the completion; default: all of "
            "a text, the completion of a pair, the assistant's turns of a conversation."),
        field("chat_template", &C::chat_template,
              "Chat template instead of the tokenizer's own, and exported with it: a file, the template's text, or one "
              "of alpaca, chatml, gemma, llama3, mistral, phi3, zephyr."),
        field("chat_template_kwargs", &C::chat_template_kwargs,
              "Variables of the chat template for all conversations, as {enable_thinking: false}; what a file's entry "
              "or a record has of its own comes first."),
        field("cache", &C::cache, "Folder for tokenised data; `none` = none; default: `cache` in the run folder.",
              OnResume::free),
        field(
            "stream_window", &C::stream_window,
            "Of streams: rows that are read, packed and shuffled together; more mix better, cost memory and delay the "
            "first step.",
            at_least(1))};
  }
  HONE_API void validate(Problems& problems) const;
};

}  // namespace hone
