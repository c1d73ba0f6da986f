// Recipes: reading, writing, checking, and what each option means for a resumed run.
#include <gtest/gtest.h>

#include <set>

#include "base/log.h"
#include "config/other_names.h"
#include "harness/errors.h"
#include "hone/registry.h"
#include "train/layers.h"
#include "train/support.h"

namespace hone {
namespace {

using Rules = std::map<std::string, std::string>;

std::string rule_text(const std::optional<OnResume>& rule) {
  return !rule                       ? "none"
         : *rule == OnResume::free   ? "free"
         : *rule == OnResume::record ? "record"
         : *rule == OnResume::fixed  ? "fixed"
                                     : "refuse";
}

// Every option of a recipe, and what a change of it means at a resume, as it has been from the first run on.
TEST(Recipe, EveryOptionIsClassedForResume) {
  registries();
  const Rules expected{{"model.path", "refuse"},
                       {"model.load.checkpoint", "refuse"},
                       {"model.load.optimizer", "refuse"},
                       {"model.load.strict", "refuse"},
                       {"model.texts_only", "refuse"}, {"model.trainable", "refuse"},
                       {"model.quantization.type", "refuse"},
                       {"model.quantization.double_quant", "refuse"},
                       {"model.quantization.skip", "refuse"},
                       {"model.<name>", "refuse"},
                       {"adapter.rank", "fixed"},
                       {"adapter.alpha", "fixed"},
                       {"adapter.dropout", "refuse"},
                       {"adapter.rslora", "fixed"},
                       {"adapter.dora", "fixed"},
                       {"adapter.init", "fixed"},
                       {"adapter.targets", "fixed"},
                       {"adapter.exclude", "fixed"},
                       {"adapter.modules_to_save", "fixed"},
                       {"adapter.trainable_token_indices", "fixed"},
                       {"adapter.rank_pattern", "fixed"},
                       {"adapter.alpha_pattern", "fixed"},
                       {"adapter.loraplus_lr_ratio", "record"},
                       {"adapter.loraplus_lr_embedding", "record"},
                       {"adapter.type", "fixed"},
                       {"adapter.path", "refuse"},
                       {"tokenizer", "refuse"},
                       {"data.train", "refuse"},
                       {"data.eval.held_out", "refuse"},
                       {"data.eval.<name>", "record"},
                       {"data.test.<name>", "free"},
                       {"data.max_length", "refuse"},
                       {"data.length_warmup.steps", "refuse"},
                       {"data.length_warmup.from", "refuse"},
                       {"data.length_warmup.multiple", "refuse"},
                       {"data.length_warmup.power", "refuse"},
                       {"data.overlong", "refuse"},
                       {"data.packing", "refuse"},
                       {"data.collator", "refuse"},
                       {"data.shuffle", "refuse"},
                       {"data.append_eos", "refuse"},
                       {"data.deduplicate", "refuse"},
                       {"data.loss", "refuse"},
                       {"data.chat_template", "refuse"},
                       {"data.chat_template_kwargs", "refuse"},
                       {"data.cache", "free"},
                       {"data.stream_window", "refuse"},
                       {"objective", "refuse"},
                       {"optimizer", "refuse"},
                       {"trainer.batch_size", "refuse"},
                       {"trainer.accumulate", "refuse"},
                       {"trainer.batch_warmup", "refuse"},
                       {"trainer.step_rows", "refuse"},
                       {"trainer.memory_limit", "free"},
                       {"trainer.steps", "record"},
                       {"trainer.epochs", "record"},
                       {"trainer.tokens", "record"},
                       {"trainer.time_limit", "free"},
                       {"trainer.max_grad_norm", "record"},
                       {"trainer.max_grad_value", "record"},
                       {"trainer.neftune_noise_alpha", "record"},
                       {"trainer.skip_spikes.sigma", "record"},
                       {"trainer.skip_spikes.window", "record"},
                       {"trainer.skip_not_finite", "record"},
                       {"trainer.ema.decay", "refuse"},
                       {"trainer.ema.warmup", "refuse"},
                       {"trainer.precision", "refuse"},
                       {"trainer.loss_scale.start", "record"},
                       {"trainer.loss_scale.grow_every", "record"},
                       {"trainer.fp8", "refuse"},
                       {"trainer.qat.weight_dtype", "refuse"},
                       {"trainer.qat.activation_dtype", "refuse"},
                       {"trainer.qat.group_size", "refuse"},
                       {"trainer.qat.fake_quant_after_n_steps", "refuse"},
                       {"trainer.device", "record"},
                       {"trainer.matmul_precision", "refuse"},
                       {"trainer.deterministic", "record"},
                       {"trainer.cuda_graphs", "record"},
                       {"trainer.eval_every", "record"},
                       {"trainer.eval_every_epochs", "record"},
                       {"trainer.eval_at_start", "record"},
                       {"trainer.eval_delay", "record"},
                       {"trainer.eval_batch_size", "free"},
                       {"trainer.max_eval_batches", "record"},
                       {"trainer.eval_sets", "record"},
                       {"trainer.eval_sets.<name>.every", "record"},
                       {"trainer.eval_sets.<name>.max_batches", "record"},
                       {"trainer.eval_seed", "record"},
                       {"trainer.report_every", "free"},
                       {"trainer.log_every", "free"},
                       {"trainer.log_modes", "free"},
                       {"trainer.save.every", "free"},
                       {"trainer.save.every_minutes", "free"},
                       {"trainer.save.keep", "free"},
                       {"trainer.save.keep_best", "free"},
                       {"trainer.save.best_by", "free"},
                       {"trainer.save.after_evaluation", "free"},
                       {"trainer.save.dtype", "free"},
                       {"trainer.save.optimizer", "free"},
                       {"trainer.save.asynchronous", "free"},
                       {"trainer.save.grace_seconds", "free"},
                       {"trainer.checkpoint_blocks", "free"},
                       {"parallel.fsdp", "free"}, {"parallel.context", "free"}, {"parallel.tensor", "free"},
                       {"metrics", "record"}, {"callbacks", "record"},
                       {"trackers", "free"},
                       {"run.folder", "free"},
                       {"run.name", "free"},
                       {"run.seed", "refuse"}};
  Rules found;
  for (const config::OptionInfo& row : config::describe(Recipe{})) {
    if (row.type == "section") continue;
    const std::string rule = rule_text(row.on_resume.value_or(OnResume::refuse));
    std::string path = row.path;
    while (path.find("[]") != std::string::npos) path.replace(path.find("[]"), 2, ".0");
    EXPECT_EQ(rule_text(on_resume(Recipe{}, path)), rule) << path;
    if (const auto list = row.path.find("[]"); list != std::string::npos) {
      EXPECT_EQ(expected.at(row.path.substr(0, list)), rule) << path;
      continue;
    }
    found[path] = rule;
  }
  EXPECT_EQ(found, expected);
}

// What recipes choose: another type of optimizer is another run, its numbers may change; which weights have which
// optimizer may not, nor what changes the meaning of saved weights.
TEST(Recipe, TheOptionsOfChoicesAreClassedForResume) {
  Recipe recipe;
  const auto expect_all = [&](const std::string& choice, const config::AnyOptions& options, const std::string& rule,
                              const std::set<std::string>& others = {}) {
    const std::string other = rule == "refuse" ? "record" : "refuse";
    EXPECT_FALSE(options.describe().empty() && choice == "optimizer");
    for (const config::OptionInfo& row : options.describe()) {
      if (row.type == "section") continue;
      std::string path = row.path;
      if (const auto list = path.find("[]"); list != std::string::npos) path.replace(list, 2, ".0");
      const std::string expected = others.contains(row.path) ? other : rule;
      EXPECT_EQ(rule_text(on_resume(recipe, choice + "." + path)), expected) << choice << "." << path;
    }
  };
  const std::map<std::string, std::set<std::string>> refused{
      {"adamw_schedule_free", {"betas"}},
      {"apollo", {"adamw_for", "rank"}},
      {"galore_adamw", {"adamw_for", "rank"}},
      {"groups", {"groups", "groups[].name", "groups[].match", "groups[].optimizer"}},
      {"muon", {"adamw_for"}}};
  for (const auto& entry : registries().optimizers.entries()) {
    SCOPED_TRACE(entry.name);
    recipe.optimizer = {entry.name, entry.options()};
    if (entry.name == "groups") {
      Problems problems;
      const auto one = config::parse_yaml("{groups: [{name: all, match: .*, optimizer: adamw}]}", "test", problems);
      recipe.optimizer.options->read(one, problems, "");
      problems.raise();
    }
    const auto own = refused.find(entry.name);
    expect_all("optimizer", *recipe.optimizer.options, "record",
               own == refused.end() ? std::set<std::string>{} : own->second);
    EXPECT_EQ(on_resume(recipe, "optimizer.type"), OnResume::refuse);
    const std::string schedule =
        entry.name == "groups" ? "optimizer.groups.0.optimizer.schedule." : "optimizer.schedule.";
    EXPECT_EQ(on_resume(recipe, schedule + "type"), OnResume::record);
    EXPECT_EQ(on_resume(recipe, schedule + "warmup_steps"), OnResume::record);
  }
  for (const auto& entry : registries().objectives.entries()) {
    recipe.objective = {entry.name, entry.options()};
    // No number of the training changes by these, but for how some are rounded.
    const std::set<std::string> of_answers{"environment.timeout", "environment.retries", "environment.keep_turns",
                                           "log_completions", "num_completions_to_print"};
    std::set<std::string> of_pairs{"judge.timeout", "judge.retries"};
    of_pairs.insert(of_answers.begin(), of_answers.end());
    const std::map<std::string, std::set<std::string>> may_change{{"causal_lm", {"metrics"}},
                                                                  {"grpo", of_answers}, {"rloo", of_answers},
                                                                  {"sdft", of_answers}, {"distillation", of_answers},
                                                                  {"ppo", of_answers}, {"online_dpo", of_pairs},
                                                                  {"xpo", of_pairs}, {"nash_md", of_pairs}};
    const auto own = may_change.find(entry.name);
    expect_all("objective", *recipe.objective.options, "refuse",
               own == may_change.end() ? std::set<std::string>{} : own->second);
    EXPECT_EQ(on_resume(recipe, "objective.type"), OnResume::refuse);
  }
  for (const auto& entry : registries().callbacks.entries()) {
    recipe.callbacks = {{entry.name, entry.options()}};
    expect_all("callbacks.0", *recipe.callbacks[0].options, "record");
    EXPECT_EQ(on_resume(recipe, "callbacks.0.type"), OnResume::record);
  }
  for (const auto& entry : registries().trackers.entries()) {
    recipe.trackers = {{entry.name, entry.options()}};
    expect_all("trackers.0", *recipe.trackers[0].options, "free");
  }
  EXPECT_EQ(on_resume(recipe, "data.eval.news.0.path"), OnResume::record);
  EXPECT_EQ(on_resume(recipe, "data.train.0.path"), OnResume::refuse);
  EXPECT_EQ(on_resume(recipe, "model.hidden_size"), OnResume::refuse);
  EXPECT_EQ(on_resume(recipe, "no.such.option"), std::nullopt);
}

TEST(Recipe, WrittenAndReadAgainIsTheSame) {
  const test::TempFolder folder;
  const Recipe recipe = test::small_recipe(folder, {{"data.eval.news", folder.write("news.jsonl", "").string()},
                                                    {"callbacks", "[{type: early_stopping, metric: eval_news_loss}]"},
                                                    {"trainer.save.keep", "2"}});
  EXPECT_EQ(recipe.data.eval.files.at("news")[0].path, (folder / "news.jsonl").string());
  EXPECT_EQ(recipe.trainer.save.keep, 2);
  EXPECT_EQ(recipe.callbacks[0].type, "early_stopping");
  const std::string yaml = config::to_yaml(write_recipe(recipe));
  EXPECT_EQ(config::to_yaml(write_recipe(read_recipe(folder.write("again.yaml", yaml).string()))), yaml);
}

// As often as it is read and written.
TEST(Recipe, ASecondDollarMakesAReferenceText) {
  const test::TempFolder folder;
  Recipe recipe = test::small_recipe(folder, {{"run.folder", (folder / "a-$${x}").string()}});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(recipe.run.folder, (folder / "a-${x}").string());
    recipe = read_recipe(folder.write("again.yaml", training::recipe_file(recipe)).string());
  }
}

// `config` takes the keys of a fresh model and is none itself; an evaluation set may be called `files`.
TEST(Recipe, TheNamesOfWhatTakesOtherKeysArePassedOverByNobody) {
  const test::TempFolder folder;
  EXPECT_HONE_ERROR(test::small_recipe(folder, {{"model.config.hidden_size", "8"}}), config,
                    "model.config: no key of its own");
  EXPECT_HONE_ERROR(test::small_recipe(folder, {{"model", "{path: m, config: {hidden_size: 8}}"}}), config,
                    "model.config: no key of its own");
  const Recipe recipe = test::small_recipe(folder, {{"data.eval.files", folder.write("a.jsonl", "").string()}});
  EXPECT_EQ(recipe.data.eval.files.at("files").size(), 1u);
}

TEST(Recipe, ContradictionsHaveTheirLine) {
  Problems problems;
  const config::Node node = config::parse_yaml(
      "{model: m,\n tokenizer: bytes,\n data: {train: a.jsonl},\n trainer:\n  {batch_size: 2,\n   eval_every: 5},\n"
      " callbacks:\n  [early_stopping],\n run: r}",
      "r.yaml", problems);
  EXPECT_HONE_ERROR(read_recipe(node), config,
                    "\n  r.yaml:6: trainer.eval_every: set, but there is nothing to evaluate on");
  EXPECT_HONE_ERROR(read_recipe(node), config, "\n  r.yaml:8: callbacks.0: watches eval_loss");
}

TEST(Recipe, LayersLieOverEachOther) {
  const test::TempFolder folder;
  test::small_recipe(folder);
  RecipeLayers layers;
  layers.file = (folder / "recipe.yaml").string();
  layers.set = {
      folder.write("more.yaml", "{trainer: {steps: 20, log_every: 5}, data: {max_length: '${trainer.batch_size}'}}")
          .string()};
  layers.environment = {{"trainer.steps", "30"}, {"trainer.batch_size", "6"}};
  layers.flags = {{"trainer.batch_size", "7"}};
  const Recipe recipe = read_recipe(layers);
  EXPECT_EQ(recipe.trainer.steps, 30);
  EXPECT_EQ(recipe.trainer.log_every, 5);
  EXPECT_EQ(recipe.trainer.batch_size, 7);
  EXPECT_EQ(recipe.data.max_length, 7);
  layers.environment = {{"trainer.stps", "30"}};
  EXPECT_HONE_ERROR(read_recipe(layers), config, "environment: trainer.stps: no such option");
}

// A template's text is no YAML, or a section of it.
TEST(Recipe, AFlagWhoseOptionIsATextTakesItAsItIs) {
  const test::TempFolder folder;
  test::small_recipe(folder);
  RecipeLayers layers;
  layers.file = (folder / "recipe.yaml").string();
  for (const std::string text : {"{% for m in messages %}{{ m['content'] }}\n{% endfor %}", "{{ messages }}", "{a: b}",
                                 "say: {% \"x\\n\" %}", "[INST]", "plain"}) {
    SCOPED_TRACE(text);
    layers.flags = {{"data.chat_template", text}};
    EXPECT_EQ(read_recipe(layers).data.chat_template, text);
    layers.environment = std::exchange(layers.flags, {});
    EXPECT_EQ(read_recipe(layers).data.chat_template, text);
    layers.environment.clear();
  }
  layers.flags = {{"data.chat_template", "'in quotes'"}};
  EXPECT_EQ(read_recipe(layers).data.chat_template, "in quotes");
  layers.flags = {{"trainer.steps", "{% x"}};
  EXPECT_HONE_ERROR(read_recipe(layers), config, "not YAML");
}

TEST(Recipe, AllProblemsAreReportedTogether) {
  const test::TempFolder folder;
  try {
    test::small_recipe(folder, {{"trainer.steps", "-5"}, {"optimizer.learning_rat", "1"}, {"data.packing", "tight"}});
    FAIL() << "no error";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.kind(), ErrorKind::config);
    for (const char* part : {"trainer.steps", "learning_rat", "learning_rate", "data.packing", "best_fit"})
      EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
}

TEST(Recipe, SaysWhatOneOptionCannotSay) {
  const test::TempFolder folder;
  const auto with = [&](const char* option, const char* value) {
    return test::small_recipe(folder, {{option, value}});
  };
  EXPECT_HONE_ERROR(with("model.path", "x"), config, "model.type: not together with path");
  EXPECT_HONE_ERROR(with("tokenizer", "''"), config, "tokenizer");
  EXPECT_HONE_ERROR(with("data.train", "[]"), config, "data.train");
}

TEST(Recipe, SaysAllThatIsMissingAtOnce) {
  Problems problems;
  config::Node node = config::parse_yaml("{tokenizer: bytes}", "test", problems);
  EXPECT_HONE_ERROR(
      read_recipe(node), config,
      "3 problems in the configuration\n  model.path: missing: a model folder, or `type:` and sizes for a "
      "fresh model\n  data.train: missing: no file to train on\n  run.folder: missing: where the run lives; "
      "or run.name");
}

TEST(Recipe, WhatALaterLayerExcludesGivesWay) {
  const test::TempFolder folder;
  const auto read = [&](const test::Overrides& overrides) { return test::small_recipe(folder, overrides); };
  EXPECT_EQ(read({{"run.name", "tiny"}}).run.folder, "");
  EXPECT_EQ(read({{"run.name", "tiny"}}).run.name, "tiny");
  EXPECT_EQ(read({{"run.name", "tiny"}}).run.seed, 3u);
  EXPECT_EQ(read({{"trainer.epochs", "2"}}).trainer.steps, std::nullopt);
  EXPECT_HONE_ERROR(read({{"run.name", "tiny"}, {"run.folder", "x"}}), config, "not together with run.name");
  EXPECT_HONE_ERROR(read({{"trainer.epochs", "2"}, {"trainer.steps", "3"}}), config, "trainer.epochs");
  EXPECT_HONE_ERROR(read({{"run.name", "a/b"}}), config, "expected a name without a path");
  for (const char* text : {"run: out", "run: {folder: out, seed: 3}"}) {
    Problems problems;
    config::Node root = config::parse_yaml(text, "r.yaml", problems);
    training::put_over(root, config::parse_yaml("run: {name: tiny}", "s.yaml", problems), problems);
    ASSERT_TRUE(root.find("run")->is_map());
    EXPECT_EQ(root.find("run")->find("folder"), nullptr);
  }
}

// What is set below a plain value that stands for a section leaves that value as it is.
TEST(Recipe, OptionsAreSetBelowPlainValues) {
  Problems problems;
  const std::string text = "{model: m, tokenizer: '${model}', data: {train: a.jsonl}, optimizer: adamw, run: out}";
  config::Node root = config::parse_yaml(text, "r.yaml", problems);
  training::put_over(root, config::parse_yaml("run: {seed: 2}", "s.yaml", problems), problems);
  EXPECT_EQ(config::detail::inline_text(*root.find("run")), "{folder: out, seed: 2}");
  training::put_over(root, {{"data.train.0.weight", "2"}, {"optimizer.learning_rate", "0.5"}}, "", problems);
  training::put_over(root, {{"run", "there"}, {"run.seed", "4"}}, "environment", problems);
  EXPECT_EQ(config::detail::inline_text(root),
            "{model: m, tokenizer: ${model}, data: {train: [{path: a.jsonl, weight: 2}]}, optimizer: {type: adamw, "
            "learning_rate: 0.5}, run: {folder: there, seed: 4}}");
  config::Node reference = config::parse_yaml("{data: {train: '${files}'}, run: '?\?\?'}", "r.yaml", problems);
  training::put_over(reference, {{"run.seed", "2"}}, "", problems);
  EXPECT_EQ(config::detail::inline_text(reference), "{data: {train: ${files}}, run: {folder: ?\?\?, seed: 2}}");
}

// Recipes that are put together from one file and these flags.
Recipe recipe_of(const std::string& yaml, const RecipeOverrides& flags = {}) {
  const test::TempFolder folder;
  RecipeLayers layers;
  layers.file = folder.write("r.yaml", yaml).string();
  layers.flags = flags;
  return read_recipe(layers);
}

TEST(Recipe, OneSourceMayBeASectionWhereAListIsExpected) {
  const std::string list = "{model: m, data: {train: [{path: a.jsonl, weight: 2}], eval: {e: [{path: b.jsonl}]}}, "
                           "callbacks: [{type: memory}], run: r}";
  const std::string expected = config::to_yaml(write_recipe(recipe_of(list)));
  const std::string rest = ", callbacks: {type: memory}, run: r}";
  EXPECT_EQ(config::to_yaml(write_recipe(recipe_of(
                "{model: m, data: {train: {path: a.jsonl, weight: 2}, eval: {e: {path: b.jsonl}}}" + rest))),
            expected);
  const std::string other = "{model: m, data: {train: [x.jsonl, y.jsonl]}" + rest;
  EXPECT_EQ(config::to_yaml(write_recipe(recipe_of(
                other, {{"data.train", "{path: a.jsonl, weight: 2}"}, {"data.eval.e", "{path: b.jsonl}"}}))),
            expected);
  // Of a list of one its number may be left out.
  EXPECT_EQ(config::to_yaml(write_recipe(recipe_of(
                "{model: m, data: {train: a.jsonl}" + rest,
                {{"data.train.weight", "2"}, {"data.eval.e.path", "b.jsonl"}}))),
            expected);
  EXPECT_EQ(config::to_yaml(write_recipe(recipe_of(
                "{model: m, data: {eval: {e: b.jsonl}}" + rest,
                {{"data.train.0.path", "a.jsonl"}, {"data.train.0.weight", "2"}}))),
            expected);
  EXPECT_HONE_ERROR(recipe_of(other, {{"data.train.weight", "2"}}), config,
                    "--data.train.weight: data.train has 2 entries; expected the number of one, as in "
                    "data.train.0.weight");
}

TEST(Recipe, WhatIsEvaluatedOnMayBeASourceAlone) {
  const auto sets = [](const std::string& eval) {
    const Recipe recipe = recipe_of("{model: m, data: {train: a.jsonl, eval: " + eval + "}, run: r}");
    std::string all;
    for (const auto& [name, files] : recipe.data.eval.files)
      for (const DataFile& file : files) all += name + ":" + file.path + (file.weight != 1 ? "!" : "") + " ";
    return all + (recipe.data.eval.held_out ? "held out" : "");
  };
  EXPECT_EQ(sets("b.jsonl"), "eval:b.jsonl ");
  EXPECT_EQ(sets("[b.jsonl, {path: c.jsonl}]"), "eval:b.jsonl eval:c.jsonl ");
  EXPECT_EQ(sets("{path: b.jsonl, columns: {text: story}}"), "eval:b.jsonl ");
  EXPECT_EQ(sets("{path: b.jsonl, held_out: 0.1}"), "eval:b.jsonl held out");
  EXPECT_EQ(sets("{path: [b.jsonl]}"), "path:b.jsonl ") << "a set that is called so, as config.yaml of a run has it";
  EXPECT_EQ(sets("{path: b.jsonl, news: c.jsonl}"), "news:c.jsonl path:b.jsonl ") << "not one source: other names";
  EXPECT_EQ(sets("{path: b.jsonl, news: c.jsonl, held_out: 0.1}"), "news:c.jsonl path:b.jsonl held out");
  for (const std::string slip : {"false", "no", "off", "Off", "False", "yes", "on", "TRUE", "none", "0.1"})
    EXPECT_HONE_ERROR(sets(slip), config, "data.eval: got " + slip + ", expected a section");
  for (const char* nothing : {"null", "NULL", "~"}) EXPECT_EQ(sets(nothing), "");
  EXPECT_EQ(sets("'no'"), "eval:no ") << "in quotes a file";
  EXPECT_HONE_ERROR(sets("{0: {path: b.jsonl}}"), config,
                    "data.eval.0: a number; expected the name of a set, as in data.eval.news");
  EXPECT_HONE_ERROR(recipe_of("{model: m, data: {train: a.jsonl}, run: r}", {{"data.test.0.path", "b.jsonl"}}), config,
                    "data.test.0: a number; expected the name of a set, as in data.test.news");
}

// A layer that takes the data away leaves nothing to mend in those below it.
TEST(Recipe, WithoutDataToEvaluateOnWhatEarlierLayersSayOfItDoesNotCount) {
  const std::string yaml = "{model: m, data: {train: a.jsonl, eval: {e: b.jsonl}}, run: r, trainer: {eval_every: 5, "
                           "max_eval_batches: 2, save: {every: 5, best_by: eval_loss}}}";
  EXPECT_EQ(recipe_of(yaml).trainer.eval_every, 5);
  for (const char* none : {"null", "{}"}) {
    const Recipe recipe = recipe_of(yaml, {{"data.eval", none}});
    EXPECT_EQ(recipe.trainer.eval_every, 0);
    EXPECT_EQ(recipe.trainer.max_eval_batches, std::nullopt);
    EXPECT_EQ(recipe.trainer.save.best_by, "");
    EXPECT_EQ(recipe.trainer.save.every, 5);
  }
  EXPECT_HONE_ERROR(recipe_of(yaml, {{"data.eval", "null"}, {"trainer.eval_every", "3"}}), config,
                    "--trainer.eval_every: set, but there is nothing to evaluate on");
  EXPECT_HONE_ERROR(recipe_of(yaml, {{"data.eval", "null"}, {"trainer", "{eval_every: 3}"}}), config,
                    "--trainer: trainer.eval_every: set, but there is nothing to evaluate on");
}

TEST(Recipe, WhatComesInThePlaceOfWhatWasEvaluatedOnKeepsWhatIsSaidOfIt) {
  const std::string yaml = "{model: m, data: {train: a.jsonl, eval: {e: b.jsonl}}, run: r, trainer: {steps: 9, "
                           "eval_every: 5, save: {every: 5, best_by: eval_loss}}}";
  const test::TempFolder folder;
  RecipeLayers layers;
  layers.file = folder.write("r.yaml", yaml).string();
  const auto evaluated = [&](const RecipeLayers& given) {
    const Recipe recipe = read_recipe(given);
    EXPECT_EQ(recipe.trainer.eval_every, 5);
    EXPECT_EQ(recipe.trainer.save.best_by, "eval_loss");
    std::string sets = recipe.data.eval.held_out ? "held out " : "";
    for (const auto& [name, files] : recipe.data.eval.files) sets += name + " ";
    return sets;
  };
  const std::int64_t before = log::warnings();
  layers.set = {folder.write("empty.yaml", "data: {eval: {}}").string()};
  EXPECT_EQ(evaluated(layers), "e ") << "an empty section merges";
  layers.set.clear();
  layers.flags = {{"data.eval", "null"}, {"data.eval.b", "d.jsonl"}};
  EXPECT_EQ(evaluated(layers), "b ");
  layers.flags = {{"data.eval", "null"}, {"data.eval.held_out", "0.5"}};
  EXPECT_EQ(evaluated(layers), "held out ");
  layers.environment = {{"data.eval", "null"}};
  layers.flags = {{"data.eval.b", "d.jsonl"}};
  EXPECT_EQ(evaluated(layers), "b ");
  layers.environment.clear();
  layers.set = {folder.write("none.yaml", "data: {eval: null}").string()};
  layers.flags = {{"data.eval.y", "y.jsonl"}};
  EXPECT_EQ(evaluated(layers), "y ");
  layers.flags.clear();
  EXPECT_EQ(read_recipe(layers).trainer.eval_every, 0);
  EXPECT_EQ(log::warnings(), before) << "null turns evaluation off, and says so itself";
  layers.set.clear();
  layers.flags = {{"data", "{train: c.jsonl}"}};  // takes all of the section's place
  EXPECT_EQ(read_recipe(layers).trainer.eval_every, 0);
  EXPECT_EQ(log::warnings(), before + 1);
}

TEST(Recipe, ProblemsOfAFreshModelAreToldWithTheRest) {
  const std::string yaml = "{model: {type: llama, hiden_size: 16}, tokenizer: bytes, data: {train: a, max_lengt: 3}, "
                           "run: r}";
  EXPECT_HONE_ERROR(recipe_of(yaml), config, "2 problems in the configuration");
  EXPECT_HONE_ERROR(recipe_of(yaml), config, "model.hiden_size: no such option; did you mean hidden_size?");
  // What the tokenizer will decide is not known yet.
  EXPECT_HONE_ERROR(recipe_of("{model: {type: llama, eos_token_id: 100000}, tokenizer: bytes, data: {train: a, "
                              "max_lengt: 3}, run: r}"),
                    config, "1 problem in the configuration");
}

// Paths of options and sections: of a choice those of all that it can be.
void add_options(const std::string& before, const std::vector<config::OptionInfo>& rows, std::set<std::string>& all) {
  for (const config::OptionInfo& row : rows) {
    all.insert(before + row.path);
    const config::Catalogue* catalogue = row.catalogue.empty() ? nullptr : config::find_catalogue(row.catalogue);
    if (!catalogue) continue;
    all.insert(before + row.path + ".type");
    for (const std::string& name : catalogue->names())
      if (before.size() < 100) add_options(before + row.path + ".", catalogue->options(name)->describe(), all);
  }
}

TEST(Recipe, NamesOfOtherTrainersLeadToOptionsThatAreThere) {
  registries();
  std::set<std::string> options, names;
  add_options("", config::describe(Recipe()), options);
  for (const config::OtherName& other : config::other_names()) {
    EXPECT_TRUE(names.insert(std::string(other.name)).second) << other.name << " is there twice";
    const std::string option(other.option == "data.train.0.columns.text" ? "data.train[].columns" : other.option);
    EXPECT_TRUE(options.contains(option)) << other.name << ": no option " << other.option;
  }
}

TEST(Recipe, NamesOfOtherTrainersAreProposed) {
  const std::string yaml = "{model: m, data: {train: a.jsonl}, run: r";
  const auto told = [&](const std::string& option, const char* text) {
    const std::string meant = "no such option; did you mean " + std::string(text) + "?";
    EXPECT_HONE_ERROR(recipe_of(yaml + "}", {{option, "1"}}), config, "--" + option + ": " + meant);
  };
  told("optimizer.lr", "optimizer.learning_rate");
  told("trainer.learning_rate", "optimizer.learning_rate");
  told("trainer.per_device_train_batch_size", "trainer.batch_size");
  told("trainer.num_train_epochs", "trainer.epochs");
  told("trainer.bf16", "trainer.precision: bf16");
  told("data.length", "data.max_length");
  told("trainer.save.save_steps", "trainer.save.every");
  told("optimizer.warmup_ratio", "optimizer.schedule.warmup_ratio");
  told("data.max_seq_length", "data.max_length");
  told("optimizer.schedule.lr_scheduler_type", "optimizer.schedule");
  EXPECT_HONE_ERROR(recipe_of(yaml + ", output_dir: x}"), config,
                    "output_dir: no such option; did you mean run: {folder: ...}?");
  // Below these a name is that of another thing.
  for (const char* option : {"trainer.save.steps", "optimizer.schedule.steps"}) {
    try {
      recipe_of(yaml + "}", {{option, "1"}});
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find("mean trainer.steps"), std::string::npos) << error.what();
    }
  }
  // Entries of lists have other things by such names.
  try {
    recipe_of(yaml + ", callbacks: [{type: memory, seed: 3}]}");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).ends_with("callbacks.0.seed: no such option")) << error.what();
  }
}

TEST(Recipe, NamesOfOtherTrainersThatSayAValueSayItOnlyWhereTheyAreTrue) {
  const auto told = [&](const std::string& line, const char* text) {
    EXPECT_HONE_ERROR(recipe_of("{model: m, data: {train: a.jsonl}, run: r, " + line + "}"), config,
                      std::string("no such option; did you mean ") + text + "?");
  };
  told("train_on_inputs: true", "data: {loss: all}");
  told("train_on_inputs: false", "data: {loss: completion}");
  told("load_in_4bit: True", "model: {quantization: nf4}");
  told("load_in_4bit: false", "model: {quantization: ...}");
  told("bf16: no", "trainer: {precision: ...}");
  told("bf16: auto", "trainer: {precision: ...}");
  told("use_lora: false", "adapter");
  told("tf32: False", "trainer: {matmul_precision: highest}");
  told("save_only_model: false", "trainer: {save: {optimizer: true}}");
}

TEST(Recipe, ASectionInThePlaceOfAListIsAnsweredWithoutANumber) {
  const auto told = [&](const std::string& train, const char* text) {
    EXPECT_HONE_ERROR(recipe_of("{model: m, data: {train: " + train + "}, run: r}"), config, text);
  };
  told("{a: x, b: y}", "data.train.a: no such option");
  told("{path: x, wight: 2}", "data.train.wight: no such option; did you mean data.train.weight?");
  told("[{path: x, wight: 2}]", "data.train.0.wight: no such option; did you mean data.train.0.weight?");
  told("{weight: 2}", "data.train.0.path");
}

TEST(Recipe, AModelIsAFolderOrAConfiguration) {
  const test::TempFolder folder;
  Problems problems;
  config::Node node = config::parse_yaml("{model: some/folder, data: {train: a.jsonl}, run: r}", "test", problems);
  const Recipe recipe = read_recipe(node);
  EXPECT_EQ(recipe.model.path, "some/folder");
  EXPECT_EQ(recipe.run.folder, "r");
  EXPECT_EQ(recipe.data.train[0].path, "a.jsonl");
}

}  // namespace
}  // namespace hone
