// The run's callbacks.
#include "train/hooks.h"

#include "hone/registry.h"

namespace hone::training {
namespace {

void gather(Wishes& wishes, Action action, const std::string& name) {
  wishes.evaluate |= action == Action::evaluate;
  wishes.save |= action == Action::save;
  if (action == Action::stop && wishes.stop.empty()) wishes.stop = name.substr(name.find('.') + 1);
}

}  // namespace

Hooks::Hooks(const std::vector<config::Choice<Callback>>& callbacks) {
  for (const config::Choice<Callback>& choice : callbacks)
    hooks_.push_back(
        {std::to_string(hooks_.size()) + "." + choice.type, registries().callbacks.make(choice)});
}

void Hooks::start(const TrainView& view) {
  for (Hook& hook : hooks_) hook.callback->on_training_start(view);
}
void Hooks::end(const TrainView& view) {
  for (Hook& hook : hooks_) hook.callback->on_training_end(view);
}
Wishes Hooks::step(const TrainView& view, const Metrics& metrics) {
  Wishes wishes;
  for (Hook& hook : hooks_) gather(wishes, hook.callback->on_step_end(view, metrics), hook.name);
  return wishes;
}
Wishes Hooks::evaluated(const TrainView& view, const Metrics& metrics) {
  Wishes wishes;
  for (Hook& hook : hooks_) gather(wishes, hook.callback->on_evaluation_end(view, metrics), hook.name);
  return wishes;
}
void Hooks::saved(const TrainView& view, const std::string& checkpoint) {
  for (Hook& hook : hooks_) hook.callback->on_save(view, checkpoint);
}
void Hooks::store(TrainState& state) {
  state.callbacks.clear();
  for (Hook& hook : hooks_) state.callbacks[hook.name] = take_state(*hook.callback, hook.name);
}
void Hooks::restore(const TrainState& state) {
  for (Hook& hook : hooks_)
    if (const auto saved = state.callbacks.find(hook.name); saved != state.callbacks.end())
      put_state(*hook.callback, hook.name, saved->second);
}

}  // namespace hone::training
