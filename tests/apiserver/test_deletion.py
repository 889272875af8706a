"""Grace periods, finalizers, owners, namespaces."""

from apiserver.serving import PODS, Client, pod


def test_a_pod_without_a_node_goes_at_once(api: Client) -> None:
    api.create_pod("a")
    answer = api.delete(f"{PODS}/a")
    assert (answer.code, answer.body["kind"]) == (200, "Pod")
    assert api.get(f"{PODS}/a").code == 404


def test_a_bound_pod_gets_its_grace_period(api: Client) -> None:
    api.create_pod("a", nodeName="n1", terminationGracePeriodSeconds=7)
    marked = api.delete(f"{PODS}/a").body["metadata"]
    assert marked["deletionGracePeriodSeconds"] == 7
    assert marked["generation"] == 2
    again = api.delete(f"{PODS}/a").body["metadata"]
    assert again["deletionTimestamp"] == marked["deletionTimestamp"]
    assert api.delete(f"{PODS}/a", {"gracePeriodSeconds": 0}).code == 200
    assert api.get(f"{PODS}/a").code == 404


def test_a_shorter_grace_period_wins(api: Client) -> None:
    api.create_pod("a", nodeName="n1")
    assert api.delete(f"{PODS}/a").body["metadata"]["deletionGracePeriodSeconds"] == 30
    shorter = api.delete(f"{PODS}/a?gracePeriodSeconds=5").body["metadata"]
    assert shorter["deletionGracePeriodSeconds"] == 5


def test_a_finished_pod_goes_at_once(api: Client) -> None:
    api.create_pod("a", nodeName="n1")
    api.patch(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}})
    api.delete(f"{PODS}/a")
    assert api.get(f"{PODS}/a").code == 404


def test_finalizers_hold_an_object_until_they_are_removed(api: Client) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    api.post(path, {"metadata": {"name": "c", "finalizers": ["example.com/hold"]}})
    assert api.delete(f"{path}/c").body["metadata"]["deletionTimestamp"]
    assert api.get(f"{path}/c").code == 200
    api.patch(f"{path}/c", {"metadata": {"finalizers": None}})
    assert api.get(f"{path}/c").code == 404


def test_preconditions_protect_another_object_of_that_name(api: Client) -> None:
    created = api.create_pod("a")
    wrong = api.delete(f"{PODS}/a", {"preconditions": {"uid": "other"}})
    assert (wrong.code, wrong.reason) == (409, "Conflict")
    assert "the UID in the precondition (other) does not match" in wrong.message
    stale = api.delete(f"{PODS}/a", {"preconditions": {"resourceVersion": "1"}})
    assert stale.code == 409
    right = {"preconditions": {"uid": created["metadata"]["uid"]}}
    assert api.delete(f"{PODS}/a", right).code == 200


def test_other_kinds_answer_a_deletion_with_a_status(api: Client) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    uid = api.post(path, {"metadata": {"name": "c"}}).body["metadata"]["uid"]
    answer = api.delete(f"{path}/c").body
    assert answer["status"] == "Success"
    assert answer["details"] == {"name": "c", "kind": "configmaps", "uid": uid}


def test_a_collection_is_deleted_by_selector(api: Client) -> None:
    for name, tier in (("a", "x"), ("b", "y"), ("c", "x")):
        api.create_pod(name, metadata={"labels": {"tier": tier}})
    answer = api.delete(f"{PODS}?labelSelector=tier%3Dx")
    assert answer.names == ["a", "c"]
    assert api.get(PODS).names == ["b"]


def _owned(api: Client, name: str, *uids: str) -> None:
    owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": uid} for uid in uids]
    api.create_pod(name, metadata={"ownerReferences": owners})


def test_dependents_go_with_their_last_owner(api: Client) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    first, second = (
        api.post(path, {"metadata": {"name": name}}).body["metadata"]["uid"] for name in "ab"
    )
    _owned(api, "both", first, second)
    _owned(api, "one", first)
    api.delete(f"{path}/a")
    assert api.get(PODS).names == ["both"]
    api.delete(f"{path}/b")
    assert api.get(PODS).names == []


def test_orphans_stay(api: Client) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    uid = api.post(path, {"metadata": {"name": "a"}}).body["metadata"]["uid"]
    _owned(api, "one", uid)
    api.delete(f"{path}/a", {"propagationPolicy": "Orphan"})
    assert "ownerReferences" not in api.get(f"{PODS}/one").body["metadata"]


def test_in_the_foreground_an_owner_goes_after_all_that_hang_on_it(api: Client) -> None:
    maps = "/api/v1/namespaces/default/configmaps"

    def owner(name: str, of: str = "", above: str = "") -> str:
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": of, "uid": above}
        references = [{**reference, "blockOwnerDeletion": True}] if of else []
        body = {"metadata": {"name": name, "ownerReferences": references}}
        uid = api.post(maps, body).body["metadata"]["uid"]
        assert isinstance(uid, str)
        return uid

    top = owner("top")
    middle = owner("middle", "top", top)
    leaf = {"apiVersion": "v1", "kind": "ConfigMap", "name": "middle", "uid": middle}
    references = [{**leaf, "blockOwnerDeletion": True}]
    api.create_pod("leaf", nodeName="n1", metadata={"ownerReferences": references})
    answer = api.delete(f"{maps}/top", {"propagationPolicy": "Foreground"})
    assert answer.body["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert api.get(maps).names == ["middle", "top"]
    assert api.get(f"{PODS}/leaf").body["metadata"]["deletionTimestamp"]
    api.delete(f"{PODS}/leaf", {"gracePeriodSeconds": 0})
    assert api.get(maps).names == []


def test_in_the_foreground_an_owner_of_nothing_goes_at_once(api: Client) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    api.post(path, {"metadata": {"name": "a"}})
    assert api.delete(f"{path}/a", {"propagationPolicy": "Foreground"}).body["status"] == "Success"
    assert api.get(path).names == []


def test_what_comes_after_its_owner_has_gone_goes_as_well(api: Client) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    uid = api.post(path, {"metadata": {"name": "a"}}).body["metadata"]["uid"]
    api.delete(f"{path}/a")
    _owned(api, "late", uid)
    _owned(api, "never-seen", "of-another-cluster")
    assert api.get(PODS).names == ["never-seen"]


def test_a_namespace_takes_its_content_along(api: Client) -> None:
    api.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    pods = "/api/v1/namespaces/team/pods"
    api.post(pods, pod("running", nodeName="n1"))
    api.post(pods, pod("waiting"))
    assert api.delete("/api/v1/namespaces/team").body["status"]["phase"] == "Terminating"
    assert api.get(pods).names == ["running"]
    refused = api.post(pods, pod("late"))
    assert (refused.code, refused.reason) == (403, "Forbidden")
    assert refused.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    api.delete(f"{pods}/running", {"gracePeriodSeconds": 0})
    assert api.get("/api/v1/namespaces/team").code == 404


def test_the_first_namespaces_stay(api: Client) -> None:
    assert api.delete("/api/v1/namespaces/default").code == 403
