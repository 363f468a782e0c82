"""Final hidden states and forced tokens, inside a running vLLM engine while it decodes.

`StateCapture` is mixed into vLLM's worker (`worker_extension_cls`). It stands in the model runner's sampling step: just
before token g of a request is sampled, the row it is sampled from is copied aside as row g, and `rl.seeded` names the
token; vLLM's sampler is not asked. It refuses to guess: a gap or a repeat in a request's rows raises, since a proof
over shifted rows would accuse an honest worker.

Why no logits processor of vLLM's own interface: it must hand on a [requests, vocabulary] float32 copy in which the
forced token is the largest, for an argmax to find it again, and it cannot hand over the log-probs. Copy and argmax
alone take 1.2 ms of a step of 92 ms (SmolLM2-135M, 64 requests, one thread); all of `rl.seeded.choose` takes 3.6.
"""

from __future__ import annotations

from typing import Any

import torch

from rl.growing import Grower, Growing


class CaptureFault(RuntimeError):
    """The engine's rows did not come one by one (preemption, speculation): no proof can be built from them."""


class StateCapture:
    """vLLM worker extension; its methods are reached by `LLM.collective_rpc`."""

    model_runner: Any

    def install_capture(self, grower: Grower) -> None:
        """Take the place of vLLM's sampler for requests with a key. Called once, after the engine has started."""
        from vllm.v1.outputs import SamplerOutput

        runner = self.model_runner
        self._grower = grower
        self._growing: dict[str, Growing] = {}
        self._last_states = torch.empty(0)
        self._forced: torch.Tensor | None = None
        sample_tokens, sample = runner.sample_tokens, runner._sample

        def watched(grammar_output: Any) -> Any:
            if runner.execute_model_state is not None:
                self._forced = self._step(runner)
            return sample_tokens(grammar_output)

        def forced(logits: Any, spec_decode_metadata: Any) -> Any:
            if self._forced is None:
                return sample(logits, spec_decode_metadata)
            return SamplerOutput(sampled_token_ids=self._forced, logprobs_tensors=None)

        runner.sample_tokens, runner._sample = watched, forced

    def _step(self, runner: Any) -> torch.Tensor | None:
        """The batch's forced tokens, int32 [requests, 1]; None where no request has a key and vLLM is to sample."""
        state, batch = runner.execute_model_state, runner.input_batch
        # One copy for the whole batch: rows are views of it and nothing is written twice.
        self._last_states = states = state.sample_hidden_states.to(torch.bfloat16, copy=True)
        if states.shape[0] != batch.num_reqs:
            raise CaptureFault(f"{states.shape[0]} sampled rows for {batch.num_reqs} requests")
        scheduled = state.scheduler_output.num_scheduled_tokens
        under_way = [self._growing.get(name) or self._begin(runner, name) for name in batch.req_ids]
        if not any(under_way):
            return None
        slots: list[int] = []
        growing: list[Growing] = []
        for slot, (request_id, one) in enumerate(zip(batch.req_ids, under_way, strict=True)):
            if one is None:
                raise CaptureFault(f"request {request_id} has no key, and others of its batch have")
            if runner.discard_request_mask.np[slot]:  # no token is sampled after a part of a prompt
                continue
            computed = int(batch.num_computed_tokens_cpu[slot]) + scheduled[request_id]
            index = computed - int(batch.num_prompt_tokens[slot])
            if index != len(one.tokens):
                raise CaptureFault(f"request {request_id}: row {index} came after row {len(one.tokens) - 1}")
            slots.append(slot)
            growing.append(one)
        forced = torch.zeros(batch.num_reqs, 1, dtype=torch.int32)
        if slots:
            whole = len(slots) == batch.num_reqs
            rows, logits = (states, state.logits) if whole else (states[slots], state.logits[slots])
            forced[slots, 0] = torch.tensor(self._grower.step(growing, rows, logits), dtype=torch.int32)
        return forced.to(states.device)

    def _begin(self, runner: Any, request_id: str) -> Growing | None:
        extra = runner.requests[request_id].sampling_params.extra_args
        if extra is None:
            return None
        return self._growing.setdefault(request_id, Growing(key=extra["key"]))

    def take_grown(self) -> dict[str, Growing]:
        """What has grown since the last call, by external request id."""
        grown = {internal.rpartition("-")[0]: one for internal, one in self._growing.items()}
        self._growing = {}
        return grown

    def last_states(self) -> torch.Tensor:
        """bfloat16 [requests, hidden], in main memory: the states of the last step."""
        return self._last_states.cpu()

    def load_policy(self, weights: list[tuple[str, torch.Tensor]]) -> None:
        """Replace the weights in place and repack what vLLM's CPU path would leave behind.

        Trap: an LM head tied to the embeddings keeps its old packed copy, so logits would go on using old weights.
        """
        from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm
        from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead

        self.model_runner.reload_weights(weights_iterator=iter(weights))
        if self.model_runner.device.type == "cpu":
            for module in self.model_runner.get_model().modules():
                if isinstance(module, ParallelLMHead):
                    dispatch_cpu_unquantized_gemm(module, remove_weight=False)
