// The run's callbacks.
#include "train/hooks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <regex>
#include <utility>

#include "base/log.h"
#include "base/plugin.h"
#include "base/strings.h"
#include "generate/writers.h"
#include "hone/registry.h"
#include "train/make_objective.h"

namespace hone::training {
namespace {

std::string type_of(const std::string& name) { return name.substr(name.find('.') + 1); }

void gather(Wishes& wishes, Action action, const std::string& name) {
  wishes.evaluate |= action == Action::evaluate;
  wishes.save |= action == Action::save;
  if (action == Action::stop && wishes.stop.empty()) wishes.stop = type_of(name);
}

// The names of saved states by type, in the order of the recipe that they were saved with.
std::map<std::string, std::vector<std::string>> by_type(const CallbackStates& saved) {
  std::vector<std::string> names;
  for (const auto& [name, state] : saved) names.push_back(name);
  const auto place = [](const std::string& name) { return parse_int(name.substr(0, name.find('.'))).value_or(0); };
  std::stable_sort(names.begin(), names.end(), [&](const auto& a, const auto& b) { return place(a) < place(b); });
  std::map<std::string, std::vector<std::string>> all;
  for (const std::string& name : names) all[type_of(name)].push_back(name);
  return all;
}

bool is_nth(std::int64_t number, std::int64_t n) { return n > 0 && number % n == 0; }

}  // namespace

struct Hooks::Wanted {
  std::string callback, pattern;
  std::regex regex = std::regex(pattern);
  bool found = false;
  std::vector<std::string> seen = {};  // until one is found

  bool matches(const std::string& name) {
    const bool does = std::regex_search(name, regex);
    found |= does;
    if (!found && std::find(seen.begin(), seen.end(), name) == seen.end()) seen.push_back(name);
    return does;
  }
};

Hooks::Hooks(const Recipe& recipe, bool is_first) {
  if (recipe.callbacks.empty()) return;
  const Needs needs = make_objective(recipe)->needs();
  for (const config::Choice<Callback>& choice : recipe.callbacks) {
    std::unique_ptr<Callback> made = registries().callbacks.make(choice);
    if (auto* writer = dynamic_cast<generate::LanguageWriter*>(made.get()))
      writer->take_languages(needs.source_language, needs.target_language);
    const CallbackTimes times = made->times();
    hooks_.push_back({std::to_string(hooks_.size()) + "." + choice.type, std::move(made), times,
                      is_first || !times.main_process_only});
  }
}

std::string Hooks::told(const Hook& hook, const Moment& now) {
  return fmt::format("callback {}, {}, step {}", type_of(hook.name), now.hook, now.step);
}

template <class Call>
void Hooks::ask(Hook& hook, const Moment& now, Call&& call) {
  in_plugin([&] { return told(hook, now); }, [&] { call(*hook.callback, hook); });
}

template <class Call>
void Hooks::each(const Moment& now, Call&& call) {
  for (Hook& hook : hooks_)
    if (hook.is_called) ask(hook, now, call);
}

template <class Call>
void Hooks::each_warned(const Moment& now, Call&& call) noexcept {
  for (Hook& hook : hooks_)
    if (hook.is_called) warned_of_plugin([&] { return told(hook, now); }, [&] { call(*hook.callback); });
}

template <class Call>
void Hooks::at_step(const Moment& now, Call&& call) {
  each(now, [&](Callback& callback, const Hook& hook) {
    if (is_nth(now.step, hook.times.every_n_steps)) call(callback, hook);
  });
}

template <class Call>
void Hooks::at_epoch(const Moment& now, std::int64_t epoch, Call&& call) {
  each(now, [&](Callback& callback, const Hook& hook) {
    if (is_nth(epoch, hook.times.every_n_epochs)) call(callback, hook);
  });
}

void Hooks::training_start(const TrainView& view) {
  each({"on_training_start", view.step}, [&](Callback& callback, const Hook&) { callback.on_training_start(view); });
}

void Hooks::training_end(const TrainView& view) {
  each({"on_training_end", view.step}, [&](Callback& callback, const Hook&) { callback.on_training_end(view); });
}

void Hooks::epoch_start(const TrainView& view, std::int64_t epoch) {
  at_epoch({"on_epoch_start", view.step}, epoch,
           [&](Callback& callback, const Hook&) { callback.on_epoch_start(view, epoch); });
}

Wishes Hooks::epoch_end(const TrainView& view, std::int64_t epoch) {
  Wishes wishes;
  at_epoch({"on_epoch_end", view.step}, epoch, [&](Callback& callback, const Hook& hook) {
    gather(wishes, callback.on_epoch_end(view, epoch), hook.name);
  });
  return wishes;
}

// The view is of the step before: what begins is the next one.
void Hooks::step_start(const TrainView& view) {
  at_step({"on_step_start", view.step + 1}, [&](Callback& callback, const Hook&) { callback.on_step_start(view); });
}

template <class Call>
void Hooks::putting_in(const Callback& callback, const Metrics& metrics, Call&& call) {
  if (!callback.gives_settings()) return call();
  const Metrics before = metrics;
  call();
  for (const auto& [name, value] : metrics)
    if (const auto old = before.find(name); old == before.end() || old->second != value) settings_.insert(name);
}

bool Hooks::see_gradients(std::int64_t step) const {
  return std::any_of(hooks_.begin(), hooks_.end(), [&](const Hook& hook) {
    return hook.is_called && is_nth(step, hook.times.every_n_steps) && hook.callback->sees_gradients();
  });
}

void Hooks::gradients(const TrainView& view, Metrics& metrics) {
  at_step({"on_gradients", view.step}, [&](Callback& callback, const Hook&) {
    putting_in(callback, metrics, [&] { callback.on_gradients(view, metrics); });
  });
}

void Hooks::updated(const TrainView& view, WeightEdit& edit) {
  for (Hook& hook : hooks_)
    if (is_nth(view.step, hook.times.every_n_steps))
      ask(hook, {"after_update", view.step},
          [&](Callback& callback, const Hook&) { callback.after_update(view, edit); });
}

Wishes Hooks::step_end(const TrainView& view, Metrics& metrics) {
  Wishes wishes;
  at_step({"on_step_end", view.step}, [&](Callback& callback, const Hook& hook) {
    putting_in(callback, metrics, [&] { gather(wishes, callback.on_step_end(view, metrics), hook.name); });
  });
  return wishes;
}

// Only a step shows what there is.
void Hooks::warn_of_unmatched() {
  for (const std::shared_ptr<Wanted>& one : std::exchange(wanted_, {}))
    if (!one->found)
      log::warning("callback {}: {} is found in the name of nothing that layers hand out: {}", one->callback,
                   hone::quoted(one->pattern), list_names(one->seen, 6));
}

void Hooks::logs(const TrainView& view, Metrics& line) {
  warn_of_unmatched();
  each({"on_log", view.step}, [&](Callback& callback, const Hook&) { callback.on_log(view, line); });
}

void Hooks::reports(const TrainView& view, Metrics& line) {
  each({"on_report", view.step}, [&](Callback& callback, const Hook&) { callback.on_report(view, line); });
}

void Hooks::evaluation_start(const TrainView& view) {
  each({"on_evaluation_start", view.step},
       [&](Callback& callback, const Hook&) { callback.on_evaluation_start(view); });
}

Wishes Hooks::evaluated(const TrainView& view, Metrics& metrics) {
  Wishes wishes;
  each({"on_evaluation_end", view.step}, [&](Callback& callback, const Hook& hook) {
    gather(wishes, callback.on_evaluation_end(view, metrics), hook.name);
  });
  return wishes;
}

void Hooks::saved(const TrainView& view, const std::string& checkpoint) {
  each({"on_save", view.step}, [&](Callback& callback, const Hook&) { callback.on_save(view, checkpoint); });
}

// The checkpoint that is to come matters more.
void Hooks::signalled(const TrainView& view, const std::string& name) noexcept {
  each_warned({"on_signal", view.step}, [&](Callback& callback) { callback.on_signal(view, name); });
}

void Hooks::failed(const TrainView& view, const std::string& error) noexcept {
  each_warned({"on_error", view.step}, [&](Callback& callback) { callback.on_error(view, error); });
}

void Hooks::store(RunState& state) {
  state.callbacks.clear();
  for (Hook& hook : hooks_)
    ask(hook, {"visit_state", state.step}, [&](Callback& callback, const Hook&) {
      state.callbacks[hook.name] = take_state(callback, hook.name);
    });
}

void Hooks::restore(const RunState& state) {
  std::map<std::string, std::vector<std::string>> saved = by_type(state.callbacks);
  for (Hook& hook : hooks_) {
    std::vector<std::string>& names = saved[type_of(hook.name)];
    if (names.empty()) continue;
    ask(hook, {"visit_state", state.step}, [&](Callback& callback, const Hook&) {
      put_state(callback, hook.name, state.callbacks.at(names.front()));
    });
    names.erase(names.begin());
  }
  for (const auto& [type, names] : saved)
    for (const std::string& name : names)
      if (!state.callbacks.at(name).empty())
        log::warning("callback {}: what it has kept is dropped: the recipe has {} of this type now", type,
                     std::count_if(hooks_.begin(), hooks_.end(),
                                   [&, &type = type](const Hook& hook) { return type_of(hook.name) == type; }));
}

std::function<bool(const std::string&)> Hooks::wanted() {
  for (const Hook& hook : hooks_)
    if (const std::string pattern = hook.callback->intermediates(); !pattern.empty())
      wanted_.push_back(std::make_shared<Wanted>(Wanted{type_of(hook.name), pattern}));
  if (wanted_.empty()) return {};
  return [all = wanted_](const std::string& name) {
    bool any = false;
    for (const std::shared_ptr<Wanted>& one : all) any |= one->matches(name);
    return any;
  };
}

}  // namespace hone::training
