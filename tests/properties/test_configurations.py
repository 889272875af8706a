"""With any plugin arguments the plugins agree with the naive ones."""

from hypothesis import given
from hypothesis import strategies as st

from framework.building import make_profile
from moorage.model.pod import Pod
from properties import strategies
from properties.clusters import clusters, configs, sociable_clusters
from properties.harness import Twin, ask, effort, profile_document
from properties.strategies import named
from properties.test_answers import agrees_with_naive
from reference.scheduler import NaiveConfig, NaiveScheduler


@effort(100)
@given(
    st.one_of(clusters(nominations=False), sociable_clusters()),
    configs(),
    st.lists(st.one_of(strategies.incoming_pods, strategies.social_pods), min_size=1, max_size=3),
)
def test_plugins_with_any_arguments_agree_with_the_naive_ones(
    twin: Twin, config: NaiveConfig, bodies: list[Pod]
) -> None:
    profile = make_profile(twin.state, profile_document(config))
    naive = NaiveScheduler(twin.naive, config)
    for number, body in enumerate(bodies):
        pod = named(body, 1000 + number)
        agrees_with_naive(ask(twin.cycle, profile, pod), naive, pod)


@effort(60)
@given(clusters(), strategies.incoming_pods, st.sampled_from([*strategies.NODE_NAMES, "x"]))
def test_a_pod_that_names_its_node_is_refused_everywhere_else(
    twin: Twin, body: Pod, name: str
) -> None:
    pod = named(body, 1000, name)
    agrees_with_naive(
        ask(twin.cycle, make_profile(twin.state), pod), NaiveScheduler(twin.naive), pod
    )
