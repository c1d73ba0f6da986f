// The same data set that a training run would see.
#include "cli/read_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/log.h"
#include "base/option_words.h"
#include "base/strings.h"
#include "cli/recipe.h"
#include "data/choose_template.h"
#include "data/files.h"
#include "data/stream.h"
#include "data/stream_entry.h"
#include "data/template_variables.h"
#include "hone/hub.h"
#include "hub/own_tokenizer.h"
#include "train/inputs.h"
#include "train/make_objective.h"
#include "train/model_source.h"
#include "train/pictures.h"
#include "train/resources.h"
#include "train/sentence_defaults.h"

namespace hone::cli {

bool is_recipe(const std::string& path) { return path.ends_with(".yaml") || path.ends_with(".yml"); }

namespace {

// Of a stream what comes first.
std::shared_ptr<const Dataset> open_data(const std::vector<DataFile>& files,
                                         const std::shared_ptr<const Tokenizer>& tokenizer,
                                         const Dataset::Options& options) {
  if (!data::is_stream(files)) return Dataset::make(files, *tokenizer, options);
  log::info("a stream: its first {}", counted(options.window, "row"));
  return data::first_window(*data::open_stream(files, tokenizer, options));
}

// As the first record of an entry says; a stream, which may be read once, shows only its first window anyway.
bool may_have_ids(const std::vector<DataFile>& files, const Dataset::Options& options) {
  if (options.records != RecordKind::language && options.records != RecordKind::seq2seq) return false;
  return data::is_stream(files) || std::any_of(files.begin(), files.end(), [&](const DataFile& entry) {
    if (entry.weight == 0) return false;  // not read
    Record first;
    data::EntryReader reader(data::files_of(entry, true).files, options.records, options.problem_type, {},
                             options.pictures != nullptr);
    reader.set_teacher(options.teacher_log_probs.has_value(), options.teacher_temperature);
    return reader.next(first) && first.as<IdsRecord>();
  });
}

DataToInspect from_recipe(const std::string& path) {
  Recipe recipe = whole_recipe({{path}, {}}, {});
  training::take_sentence_defaults(recipe);
  DataToInspect found;
  auto tokenizer = recipe.tokenizer.empty() ? hub::own_tokenizer(training::model_source(recipe.model))
                                            : load_tokenizer(recipe.tokenizer);
  found.tokenizer = data::with_chat_template(std::move(tokenizer), recipe.data.chat_template, "data.chat_template");
  const Needs needs = training::make_objective(recipe)->needs();
  Dataset::Options options = training::dataset_options(recipe.data, needs, nullptr);
  // What may be looked at before the model is there.
  if (needs.pictures && !recipe.model.texts_only && !recipe.model.path.empty() &&
      std::filesystem::exists(recipe.model.path))
    options.pictures = training::pictures_in(training::model_source(recipe.model));
  found.data = open_data(recipe.data.train, found.tokenizer, options);
  found.may_have_ids = may_have_ids(recipe.data.train, options);
  return found;
}

}  // namespace

std::map<std::string, std::string> parse_columns(const std::vector<std::string>& renames) {
  std::map<std::string, std::string> columns;
  for (const std::string& rename : renames) {
    const auto equals = rename.find('=');
    if (equals == std::string::npos || equals == 0)
      throw Error(ErrorKind::usage,
                  fmt::format("--columns: got \"{}\", expected field=name, as in text=story", rename));
    const std::string known = rename.substr(0, equals);
    if (!columns.emplace(known, rename.substr(equals + 1)).second)
      throw Error(ErrorKind::usage, fmt::format("--columns: {} is given twice; expected one field or template for it",
                                                escape_for_terminal(known)));
  }
  return columns;
}

TokenLabels token_labels_of(const TokenFlags& flags, RecordKind records, const std::string& prefix) {
  const auto only_for = [&](bool given, const char* flag, RecordKind kind, const char* of) {
    if (given && records != kind)
      throw Error(ErrorKind::usage, fmt::format("{}{}: is of {} records alone", prefix, flag, of));
  };
  only_for(flags.label_all_tokens, "label-all-tokens", RecordKind::tagged, "tagged");
  only_for(flags.step_separator.has_value(), "step-separator", RecordKind::steps, "steps");
  TokenLabels made;
  made.all = flags.label_all_tokens;
  made.step_separator = flags.step_separator.value_or(made.step_separator);
  return made;
}

QuestionOptions questions_of(const std::optional<std::int64_t>& doc_stride, RecordKind records,
                             const std::string& prefix) {
  if (doc_stride && records != RecordKind::question)
    throw Error(ErrorKind::usage, prefix + "doc-stride: is of question records alone");
  QuestionOptions made;
  made.doc_stride = doc_stride.value_or(made.doc_stride);
  return made;
}

DataToInspect read_data(const std::vector<std::string>& paths, const DataFlags& flags) {
  if (paths.size() == 1 && is_recipe(paths[0])) return from_recipe(paths[0]);
  const WordsOfFlags words("--data.");
  DataToInspect found;
  found.tokenizer =
      data::with_chat_template(load_tokenizer(flags.tokenizer), flags.chat_template, "--data.chat-template");
  std::vector<DataFile> files;
  for (const std::string& path : paths) {
    files.emplace_back();
    files.back().path = path;
    files.back().columns = parse_columns(flags.columns);
    files.back().ignore = flags.ignore;
    files.back().max_samples = flags.max_samples;
    files.back().image_folder = flags.image_folder;
  }
  DataSection section;
  section.max_length = flags.max_length;
  section.overlong = flags.overlong;
  section.packing = flags.packing;
  section.append_eos = flags.append_eos;
  section.loss = flags.loss;
  Dataset::Options options = training::dataset_options(section, flags.records);
  options.problem_type = flags.problem_type;
  options.token_labels = token_labels_of(flags, flags.records, "--data.");
  options.questions = questions_of(flags.doc_stride, flags.records, "--data.");
  data::check_variables(flags.chat_template_kwargs, "--data.chat-template-kwargs");
  options.chat_template_kwargs = flags.chat_template_kwargs;
  if (flags.records == RecordKind::language) options.pictures = training::pictures_in(flags.tokenizer);
  found.data = open_data(files, found.tokenizer, options);
  found.may_have_ids = may_have_ids(files, options);
  return found;
}

}  // namespace hone::cli
